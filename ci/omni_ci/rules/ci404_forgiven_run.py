from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule

_FORGIVING = frozenset([":", "true", "echo", "printf"])


class FailedTestsAreNotForgiven(Rule):
    """A failed test run is not forgiven by `|| true`.

    The step is green whatever the tests say. A run that may fail belongs into a step of its own, which does not
    block and says until when.
    """

    code = "CI404"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            commands = job.script.commands
            tests = {run.words for run in job.runs}
            for command, following in pairwise(commands):
                forgives = following.name in _FORGIVING or following.words[:2] == ("exit", "0")
                if command.after == "||" and forgives and command.words in tests:
                    then = " ".join(following.words)
                    yield job.found(
                        " ".join(command.words), f"forgives failed tests: `pytest … || {then}` is always 0"
                    )
