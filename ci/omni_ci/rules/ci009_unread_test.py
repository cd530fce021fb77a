from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule


class TestsCanBeRead(Rule):
    """A test file that a step runs can be read.

    What is no Python, has bytes of another encoding or is larger than 1 MiB no rule judges: not its marks, not the
    cards it needs, not what it imports. pytest ends with 2 for a file that it cannot import, and runs nothing of it.
    Mend the file, divide it, or leave it out of the run with `--ignore`.
    """

    code = "CI009"

    def check(self, context: Context) -> Iterator[Found]:
        runs = (run for job in context.jobs for run in job.runs)
        tests = {path for run in runs for path in context.test_paths.of_run(run).files}
        for path in sorted(tests | context.conftests(tests)):
            if found := context.unread(path):
                message = f"{found.because}; no rule judges what it holds"
                yield Found(file=path, line=found.line, subject=path, key="", message=message)
