from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.placements import expression_of, selects
from omni_ci.rules.rule import Found, Rule
from omni_ci.shell.runs import PytestRun

_HALVES = ("--offline", "--online")


class RunsHaveTests(Rule):
    """A pytest run selects a test.

    A run whose `-m` fits no test under its paths ends with 5, and reddens the step, or is taken for "nothing to do".
    In a coverage split it is asked of each half. Judged from the marks in the files; where one of them cannot be
    read, or a conftest may add some, nothing is said.
    """

    code = "CI303"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            for run in job.runs:
                if run.marks is None or run.keyword is not None or run.problem is not None:
                    continue
                for half, paths in _halves(run):
                    if (count := _unselected(run, paths, job, context)) is not None:
                        what = f"{half}: " if half else ""
                        named = " ".join(paths) or "the whole repository"
                        tests = "the one test" if count == 1 else f"any of the {count} tests"
                        message = f"{what}-m {run.marks!r} does not select {tests} in {named}"
                        yield job.found(f"{run.marks} {named}", message)


def _halves(run: PytestRun) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the paths that are collected together: those of each half of a split, or all."""
    if not run.measures_coverage:
        yield "", run.paths
        return
    for half in _HALVES:
        pairs = pairwise((*run.words, ""))
        paths = tuple(
            word.partition("=")[2] or following for word, following in pairs if word.partition("=")[0] == half
        )
        if paths:
            yield half, paths


def _unselected(run: PytestRun, paths: tuple[str, ...], job: Job, context: Context) -> int | None:
    """Return how many tests stand under *paths* where none is selected; None where one is, or could be."""
    reached = context.test_paths.of_paths(run, paths)
    expression = expression_of(run)
    if expression is None or not reached.is_exact or any(map(context.adds_marks, reached.files)):
        return None
    count = 0
    for file in reached.files:
        tests = context.tests(file)
        if not tests:
            return None
        for test in tests:
            count += 1
            if any(selects(expression, one, job.platform, context) is not False for one in test.variants):
                return None
    return count or None
