from __future__ import annotations

from collections.abc import Iterator, Sequence

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.placements import Placement, placements
from omni_ci.rules.rule import Found, Rule


class TestsGetTheirCards(Rule):
    """A test gets as many cards as it needs in a step that selects it.

    With fewer it is skipped, in green, every time. Give the step a preset with more cards, or take the tests out of
    its `-m`. A step that measures coverage must give them itself: what it skips is an empty report. Another step may
    give them where nothing is measured.
    """

    code = "CI301"

    def check(self, context: Context) -> Iterator[Found]:
        placed = {job.id: placements(job, context) for job in context.every_job}
        running = {one.id for found in placed.values() for one in found if one.skipped is None}
        for job in context.jobs:
            wanting: dict[str, list[Placement]] = {}
            for one in placed[job.id]:
                is_needy = one.skipped is not None and one.skipped.is_too_few
                if is_needy and (job.measures_coverage or one.id not in running):
                    wanting.setdefault(one.file, []).append(one)
            for file, found in wanting.items():
                yield _found(job, file, found)


def _found(job: Job, file: str, placed: Sequence[Placement]) -> Found:
    because = placed[0].skipped.because if placed[0].skipped else ""
    tests = sorted({test.line: test.name for one in placed for test in one.tests}.items())
    names = ", ".join(dict.fromkeys(name for _, name in tests[:3]))
    more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
    empty = "; its coverage report would be empty of them" if job.measures_coverage else ""
    return job.found(
        file,
        f"selects {names}{more} of {file}, which {because}, and {job.hardware} has {job.cards}: always skipped{empty}",
    )
