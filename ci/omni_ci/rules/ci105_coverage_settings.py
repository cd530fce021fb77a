from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule

_FILE = "pyproject.toml"
_HEADER = "[tool.coverage.run]"


class CoverageReachesChildren(Rule):
    """Coverage's settings measure what tests start: servers, subprocesses, spawned workers.

    An online test's server is another process. Without `patch = ["subprocess"]` it is not measured at all, without
    `sigterm = true` its data is lost when the fixture stops it, without `concurrency` spawned workers and threads are
    missing, and without `source` (or `--cov=`) files that nothing imports do not count. Judged where pyproject.toml
    has the settings and a step measures coverage.
    """

    code = "CI105"

    def check(self, context: Context) -> Iterator[Found]:
        jobs = [job for job in context.jobs if job.measures_coverage]
        settings = context.setting("tool", "coverage", "run")
        if not (jobs and isinstance(settings, Mapping)):
            return
        has_source = all(
            any(word.startswith("--cov") for run in job.runs for word in run.words) for job in jobs
        )
        lines = (context.read(_FILE) or "").splitlines()
        line = next((number for number, text in enumerate(lines, 1) if text.strip() == _HEADER), 1)
        for key, wanted in _missing(settings, has_source=has_source):
            message = f"{_HEADER} lacks {wanted}, and {jobs[0].title} measures processes that tests start"
            yield Found(file=_FILE, line=line, subject=_FILE, key=key, message=message)


def _missing(settings: Mapping[str, Any], *, has_source: bool) -> Iterator[tuple[str, str]]:
    if "subprocess" not in settings.get("patch", ()):
        yield "patch", 'patch = ["subprocess"]'
    if settings.get("sigterm") is not True:
        yield "sigterm", "sigterm = true"
    if lacking := [
        one for one in ("multiprocessing", "thread") if one not in settings.get("concurrency", ())
    ]:
        yield "concurrency", f"{' and '.join(map(repr, lacking))} in concurrency"
    if not (has_source or settings.get("source") or settings.get("source_pkgs")):
        yield "source", "source"
