from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.writing import coverage_reports, is_declared


class CoverageReportsAreKept(Rule):
    """A coverage report that a step writes is an artifact of it.

    Measuring costs time; a report that stays in the pod is gone with it. Declare it in `artifact_paths`, upload it,
    or do not measure.
    """

    code = "CI504"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            for one in dict.fromkeys(coverage_reports(job)):
                if not is_declared(one.path, job.artifacts) and not is_declared(one.name, job.artifacts):
                    yield job.found(
                        one.name, f"writes the coverage report {one.name}, which is no artifact of it"
                    )
