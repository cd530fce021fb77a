from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.timeouts import Bound, bounds, unbounded_runs


class TimeoutsAreTheSteps(Rule):
    """What bounds a step is `timeout_in_minutes`, not a `timeout` in its command.

    A `timeout` bounds what it wraps, and not the setup before it or a server that outlives it; alone it leaves the
    job without an end. One that is not shorter than the step's own minutes never ends anything. A shorter one
    around one of several runs is fine.
    """

    code = "CI202"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            found = [bound for bound in bounds(job) if not bound.is_coverage]  # CI101 says so
            minutes = job.step.timeout_in_minutes
            if minutes is None and found and not unbounded_runs(job):
                yield job.found(
                    "", f"is bounded by {_listed(found)} alone; write timeout_in_minutes{_together(found)}"
                )
            for bound in found if minutes else ():
                if bound.minutes is not None and minutes is not None and bound.minutes >= minutes:
                    message = f"`timeout {bound.written}` never ends anything: the step itself ends after {minutes} minutes"
                    yield job.found(bound.written, message)


def _listed(found: Sequence[Bound]) -> str:
    return " and ".join(dict.fromkeys(f"`timeout {bound.written}`" for bound in found))


def _together(found: Sequence[Bound]) -> str:
    """Return the minutes that all of them may take, one after the other."""
    known = [bound.minutes for bound in found if bound.minutes is not None]
    return f": {math.ceil(sum(known))}" if len(known) == len(found) else ""
