"""A pytest plugin that writes how many tests ran their body, and how many failed; `cov split` loads it by `-p`.

pytest's exit code is 0 when everything was skipped, 1 when a plugin's threshold was missed and no test failed, and a JUnit file could be claimed by the caller's own
`--junitxml`. Standard library and pytest only: it runs inside the measured process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

ENVIRONMENT = "OMNI_CI_TALLY"


def pytest_configure(config: pytest.Config) -> None:
    """Count in the controller only: it sees the reports of every xdist worker."""
    path = os.environ.get(ENVIRONMENT)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Tally(Path(path)), "omni-ci-tally")


class Tally:
    """Counts by node id, so that reruns and subtests count once."""

    def __init__(self, path: Path) -> None:
        """Write to *path* when the session ends."""
        self.path = path
        self.executed: set[str] = set()
        self.skipped: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sort a phase's report: only a body that ran and was not skipped counts as executed."""
        if report.failed:
            self.failed.add(report.nodeid)
        # an expected failure is reported as skipped, and its body did run
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)
        elif report.when == "call":
            self.executed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Leave the counts for the parent."""
        counts = {
            "executed": len(self.executed),
            "skipped": len(self.skipped - self.executed),
            "failed": len(self.failed),
        }
        self.path.write_text(json.dumps(counts), encoding="utf-8")
