from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.statuses import Options


class ArtifactsOfFailuresAreUploaded(Rule):
    """A step uploads its artifacts when its tests fail, too.

    The agent's shell stops at the first command that fails, so that an upload below the tests never happens when it
    is wanted most. Use `artifact_paths`, which is read after a failure as well, or `set +e` with the status kept.
    """

    code = "CI506"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if job.runner is None:  # a runner goes on
                for path in _unreached(job):
                    yield job.found(
                        path, f"uploads {path} below its tests, where a failed test ends the commands"
                    )


def _unreached(job: Job) -> Iterator[str]:
    tests = {run.words for run in job.runs}
    stops, may_fail = True, False
    for command in job.script.commands:
        if command.inside[-1:] == ("trap",):
            continue
        if command.name == "set" and (told := Options.of(command.words).errexit) is not None:
            stops = told
        if command.words in tests and stops and command.after != "||":
            may_fail = True
        if (
            may_fail
            and command.words[:3] == ("buildkite-agent", "artifact", "upload")
            and len(command.words) > 3
        ):
            yield command.words[3]
