from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.timeouts import bounds, unbounded_runs


class StepsEnd(Rule):
    """A step has a timeout.

    Without `timeout_in_minutes` a hanging test holds its machine until somebody notices. Write the minutes that the
    step takes on a slow day.
    """

    code = "CI201"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            only_bounded = any(bounds(job)) and not unbounded_runs(job)  # CI202 says so
            if job.step.timeout_in_minutes is None and not only_bounded and not job.measures_coverage:
                yield job.found("", "has no timeout_in_minutes: a hang holds its machine for good")
