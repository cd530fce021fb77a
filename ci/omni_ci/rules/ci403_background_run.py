from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.shell.runs import Command


class BackgroundTestsAreAskedFor(Rule):
    """The status of a test run in the background is asked for.

    `pytest … & wait` is 0 whatever the tests did: `wait` without a process waits for all and forgets their statuses.
    Keep each `$!` and `wait "$pid"` for it, or make the runs steps of their own.
    """

    code = "CI403"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            commands = job.script.commands
            asks = any(
                one.name == "wait" and any(not word.startswith("-") for word in one.words[1:])
                for one in commands
            )
            tests = {run.words for run in job.runs}
            for at, command in enumerate(commands):
                if command.words in tests and not asks and _is_in_background(commands, at):
                    yield job.found(
                        " ".join(command.words),
                        "runs tests in the background, and nothing waits for their status",
                    )


def _is_in_background(commands: Sequence[Command], at: int) -> bool:
    """Return whether `&` stands behind the command at *at*, or behind the groups that it stands in."""
    run = commands[at]
    if run.after == "&":
        return True
    outside = next((one for one in commands[at + 1 :] if one.within[: len(run.within)] != run.within), None)
    if outside is None or outside.before != "&":
        return False
    shared = len(
        list(takewhile(lambda pair: pair[0] == pair[1], zip(run.within, outside.within, strict=False)))
    )
    return {"{ }", "subshell"}.issuperset(run.inside[shared:])
