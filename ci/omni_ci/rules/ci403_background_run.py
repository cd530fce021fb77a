from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule


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
            for command in commands:
                if command.after == "&" and command.words in tests and not asks:
                    yield job.found(
                        " ".join(command.words),
                        "runs tests in the background, and nothing waits for their status",
                    )
