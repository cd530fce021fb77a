from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule


class PipedTestsFail(Rule):
    """A test run that is piped into another program stands under `set -o pipefail`.

    `pytest … | tee log` has the status of `tee`, which is 0. Put `set -o pipefail` before it. A preset with a
    `runner` has it set.
    """

    code = "CI406"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            tests = {run.words for run in job.runs}
            is_safe = job.runner is not None
            for command in job.script.commands:
                is_safe = is_safe or "pipefail" in command.words
                if command.after in {"|", "|&"} and command.words in tests and not is_safe:
                    yield job.found(
                        " ".join(command.words),
                        "pipes its tests, and without `set -o pipefail` their status is lost",
                    )
