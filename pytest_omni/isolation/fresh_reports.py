"""The file through which a fresh process tells how its test went: one JSON object a line, written at once."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_PHASE = pytest.TestReport.__name__


class Told(NamedTuple):
    """What a process has told: the report of each phase, those of subtests beside them, and what else it said."""

    reports: dict[str, dict[str, Any]]
    parts: tuple[dict[str, Any], ...]
    said: tuple[str, ...]


def folder(config: pytest.Config) -> Path:
    """Return a new folder below pytest's own temporary one."""
    # Private, but pytest's own fixture has it from there too; without it the folder is one of the system's.
    factory = getattr(config, "_tmp_path_factory", None)
    return Path(factory.mktemp("fresh") if factory else tempfile.mkdtemp(prefix="pytest-omni-fresh-"))


def report_file(config: pytest.Config) -> Path:
    """Return where a process may write its lines."""
    return folder(config) / "reports.jsonl"


def serialised(config: pytest.Config, report: pytest.TestReport) -> dict[str, Any]:
    """Return *report* as plain values, the way pytest-xdist gets them from its workers.

    Before, it is shown as to a terminal: that is when pytest fails a test that passed but for its subtests.
    """
    config.hook.pytest_report_teststatus(report=report, config=config)
    return dict(config.hook.pytest_report_to_serializable(config=config, report=report))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add one line: {"report": ...} or {"said": "..."}; what JSON does not know is written as text."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, default=str) + "\n")


def read(path: Path) -> Told:
    """Return what was told; a last line that was cut off does not count."""
    rows = list(_rows(path))
    reports = [row["report"] for row in rows if "report" in row]
    return Told(
        {report["when"]: report for report in reports if _is_phase(report)},
        tuple(report for report in reports if not _is_phase(report)),
        tuple(str(row["said"]) for row in rows if "said" in row),
    )


def _is_phase(report: Mapping[str, Any]) -> bool:
    # pytest writes down the class of what it serialises itself; a subtest's report names its own kind
    return report.get("$report_type", _PHASE) == _PHASE and "_report_type" not in report


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield json.loads(line)
