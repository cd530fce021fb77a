from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.timeouts import bounds


class CoverageHasTime(Rule):
    """A step that measures coverage has a timeout for two runs, and no `timeout` around them.

    It runs the model's tests twice, and coverage slows both: give it twice the minutes of the step that runs the
    same tests plainly. A `timeout` around the two ends the second run before its report is written; the step's own
    `timeout_in_minutes` is enough.
    """

    code = "CI101"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if not job.measures_coverage:
                continue
            if any(bound.is_coverage for bound in bounds(job)):
                message = "wraps its coverage runs in `timeout`; write the minutes as timeout_in_minutes"
                yield job.found("timeout", message)
            minutes = job.step.timeout_in_minutes
            if minutes is None:
                yield job.found("", "measures coverage without timeout_in_minutes")
            elif (plain := _plain(job, context)) and minutes < 2 * (plain.step.timeout_in_minutes or 0):
                yield job.found(
                    plain.id,
                    f"runs its tests twice in {minutes} minutes, and step {plain.title} has "
                    f"{plain.step.timeout_in_minutes} for running them once; give it {2 * (plain.step.timeout_in_minutes or 0)}",
                )


def _plain(job: Job, context: Context) -> Job | None:
    """Return the step that runs just these tests without measuring them, on the same hardware."""
    files = _files(job, context)
    alike = (
        one
        for one in context.every_job
        if one.hardware == job.hardware and not one.measures_coverage and one.step.timeout_in_minutes
    )
    return next((one for one in alike if files and _files(one, context) == files), None)


def _files(job: Job, context: Context) -> frozenset[str]:
    return frozenset(path for run in job.runs for path in context.test_paths.of_run(run).files)
