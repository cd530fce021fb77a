from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule


class ErrTrapsAreTheRunners(Rule):
    """A step sets no trap on ERR.

    A preset's `runner` keeps the first failure of a list of commands with a trap on ERR, and the last trap wins: with
    the step's in its place a failure may leave the job green. Use `trap … EXIT` to clean up.
    """

    code = "CI405"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            for command in job.script.commands:
                if job.runner and command.name == "trap" and "ERR" in command.words[1:]:
                    yield job.found("", "sets a trap on ERR, which takes the place of the runner's; use EXIT")
