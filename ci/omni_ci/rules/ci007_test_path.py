from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule


class TestPathsExist(Rule):
    """A test path in a command exists.

    pytest ends with 4 for a path that is not there, and runs none of the others. Where that status is tolerated, a
    moved file makes a green job that tests nothing. Name the path that took its place.
    """

    code = "CI007"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if any(command.words[:2] == ("git", "clone") for command in job.script.commands):
                continue  # it may fetch what it tests
            for run in job.runs:
                for path in dict.fromkeys(context.test_paths.of_run(run).missing):
                    yield job.found(path, f"runs {path}, which does not exist{context.nearest(path)}")
