from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.placements import may_select
from omni_ci.rules.rule import Found, Rule
from omni_ci.shell.runs import PytestRun


class TestsHaveAStep(Rule):
    """A test file is reached by a step, and one of its tests selected.

    A test that no step runs, or that every step's `-m` leaves out, runs on its author's machine once, and never
    again. Name the file or its folder in a step, with the marks of its tests. Marks that cannot be read from the
    file count for the test.
    """

    code = "CI003"
    asks_about_all = True

    def check(self, context: Context) -> Iterator[Found]:
        reaching: defaultdict[str, list[tuple[Job, PytestRun]]] = defaultdict(list)
        for job in context.every_job:
            for run in context.all_runs(job):
                for path in context.test_paths.of_run(run).files:
                    reaching[path].append((job, run))
        for path in context.test_paths.tests:
            runs = reaching.get(path, [])
            if not any(may_select(run, path, job, context) for job, run in runs) and _has_tests(
                path, context
            ):
                yield Found(file=path, line=1, subject=path, key="", message=_said(runs))


def _said(runs: list[tuple[Job, PytestRun]]) -> str:
    if not runs:
        return "no step of any pipeline runs this test file"
    marks = list(dict.fromkeys(repr(run.marks) for _, run in runs))
    more = f" and {len(marks) - 3} more" if len(marks) > 3 else ""
    return f"no step selects a test of this file: those that reach it have -m {', '.join(marks[:3])}{more}"


def _has_tests(path: str, context: Context) -> bool:
    # a class may inherit its tests
    return context.tests(path) != () or "class " in (context.read(path) or "")
