from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.placements import Placement, placements
from omni_ci.rules.rule import Found, Rule


class TestsGetTheirDevice(Rule):
    """A test gets the device it needs in one of the steps that select it.

    A test for another SKU than that of every step which selects it never runs, and nothing turns red. Add a step with
    its hardware, or take the SKU out of the test.
    """

    code = "CI302"
    asks_about_all = True

    def check(self, context: Context) -> Iterator[Found]:
        skipping: dict[tuple[str, int], list[tuple[Job, Placement]]] = {}
        running: set[tuple[str, int]] = set()
        for job in context.every_job:
            for one in placements(job, context):
                if one.skipped is None or one.skipped.is_too_few:
                    running.add(one.id)  # too few cards are CI301's
                else:
                    skipping.setdefault(one.id, []).append((job, one))
        for name, found in skipping.items():
            if name not in running:
                yield from _found(found)


def _found(found: list[tuple[Job, Placement]]) -> Iterator[Found]:
    _, one = found[0]
    because = one.skipped.because if one.skipped else ""
    steps = ", ".join(dict.fromkeys(f"{job.title} ({job.hardware})" for job, _ in found[:3]))
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    for test in one.tests:
        name = f"{one.file}::{test.name}"
        message = f"{name} {because}; the steps that select it are {steps}{more}: always skipped"
        yield Found(file=one.file, line=test.line, subject=name, key="", message=message)
