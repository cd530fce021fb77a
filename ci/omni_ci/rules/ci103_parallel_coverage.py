from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule

_SCRIPT = "run_cov_split.sh"
# Either names the job in the report, or hands over to `omni-ci`, which does.
_KNOWING = ("BUILDKITE_PARALLEL_JOB", "cov split")


class ParallelCoverageIsToldApart(Rule):
    """The jobs of a parallel coverage step write reports of different names.

    They share one step id, so that a script which names reports by it alone overwrites one job's report with the
    next one's. Add `$BUILDKITE_PARALLEL_JOB` to the name; `omni-ci cov split` does so by itself. The job's id would
    not do: a retry would add a report instead of replacing one.
    """

    code = "CI103"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            is_many = job.count > 1 or job.step.matrix is not None
            for path in _scripts(job, context) if is_many else ():
                if not any(word in (context.read(path) or "") for word in _KNOWING):
                    yield job.found(
                        path,
                        f"runs {path} in {_count(job)} jobs of one step id, and the script does not tell them apart",
                    )


def _scripts(job: Job, context: Context) -> Iterator[str]:
    words = {word.removeprefix("./") for run in job.runs for word in run.words if word.endswith(_SCRIPT)}
    yield from sorted(words & context.names)


def _count(job: Job) -> str:
    return str(job.count) if job.count > 1 else "the matrix'"
