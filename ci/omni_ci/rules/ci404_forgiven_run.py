from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.forgiveness import forgiven, with_tests
from omni_ci.rules.rule import Found, Rule


class FailedTestsAreNotForgiven(Rule):
    """A failed test run is neither forgiven nor repeated by the shell.

    After `pytest … ||` only `exit 1`, `false`, another test run or a kept status (`rc=$?`, in YAML `rc=$$?`, and later
    `exit "$rc"`) leave the step red; `|| true`, `|| cat log`, `if pytest …`, `! pytest …` and a loop until the tests
    pass make it green whatever they say. So does `pytest … && echo passed` with a line after it: the agent's `set -e`
    overlooks what fails before an `&&`. A run that may fail belongs into a step of its own, which does not block and
    says until when; what to repeat is Buildkite's `retry`.
    """

    code = "CI404"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            commands = job.script.commands
            tests = with_tests(job.script, frozenset(run.words for run in job.runs if run.words))
            for at, command in enumerate(commands):
                if command.words in tests and (
                    how := forgiven(commands, at, tests, by_agent=job.runner is None)
                ):
                    yield job.found(" ".join(command.words), f"forgives failed tests: {how}")
