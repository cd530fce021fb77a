from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.ci501_artifact_collision import uploaded
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import differs_by_job
from omni_ci.rules.rule import Found, Rule


class ParallelArtifactsDiffer(Rule):
    """The jobs of a parallel step upload artifacts of different paths.

    They share one step: a download gets what the last of them left, and the others' files are lost. Put
    `$$BUILDKITE_PARALLEL_JOB` into the name.
    """

    code = "CI502"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if job.count == 1 and job.step.matrix is None:
                continue
            for path in dict.fromkeys(uploaded(job)):
                if not differs_by_job(path):
                    yield job.found(
                        path,
                        f"uploads {path} from each of its jobs; put $$BUILDKITE_PARALLEL_JOB into the name",
                    )
