"""The words for a plan: one line for a shard that runs, a table for ``--shard-plan``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from omni_hardware.errors import strip_controls
from pytest_omni.sharding.estimates import UNKNOWN_SETUP_TESTS
from pytest_omni.sharding.plan import ALONE, METHODS, Plan, Shard
from pytest_omni.sharding.suite import Part

_DIGEST = slice(len("sha256:"), len("sha256:") + 12)  # what people compare


@dataclass(frozen=True, slots=True)
class Unit:
    """How a load is written: in seconds, or where nothing was measured in tests' worth."""

    word: str
    hint: str | None = None

    def __call__(self, load: float) -> str:
        """Return *load* with three digits that matter."""
        number = f"{load:.0f}" if load >= 100 else f"{load:.3g}"
        return (
            f"{number} {self.word.removesuffix('s') if number == '1' and len(self.word) > 1 else self.word}"
        )


SECONDS = Unit("s")
UNITS = Unit(
    "units",
    hint=f"nothing was measured yet: a test counts 1, a set-up {UNKNOWN_SETUP_TESTS}; "
    "--shard-durations FILE records times and uses them",
)


def unit(*, measured: bool) -> Unit:
    """Return how loads are written."""
    return SECONDS if measured else UNITS


def shard_lines(plan: Plan, number: int, write: Unit) -> list[str]:
    """Return what shard *number* says before it runs."""
    shard, of = plan.shards[number], len(plan.shards)
    line = (
        f"shard {number} of {of} (0 to {of - 1}) by {plan.by}: {len(shard.cases)} of "
        f"{_tests(len(plan.suite.cases))}, {write(shard.seconds)} of {write(plan.total)}; plan {plan.digest[_DIGEST]}"
    )
    return [line, write.hint] if write.hint else [line]


def plan_lines(plan: Plan, write: Unit) -> list[str]:
    """Return the table: the shards with their loads, and under each what stays together and why."""
    of = len(plan.shards)
    shards = f"{of} shards (0 to {of - 1})" if of > 1 else "1 shard (--num-shards makes more)"
    what = f"{_tests(len(plan.suite.cases))} on {shards}"
    title = f"shard plan: {what}, divided {METHODS[plan.by].means}; plan {plan.digest[_DIGEST]}"
    loads = f"{write(plan.total)} in all; an even share is {write(plan.ideal)}"
    rows = [row for number, shard in enumerate(plan.shards) for row in _rows(plan, number, shard, write)]
    return [strip_controls(line) for line in (title, loads, *rows, *([write.hint] if write.hint else []))]


def _rows(plan: Plan, number: int, shard: Shard, write: Unit) -> Iterator[str]:
    share = f", {shard.seconds / plan.ideal:.2f} of an even share" if plan.ideal else ""
    yield f"shard {number}: {_tests(len(shard.cases))}, {write(shard.seconds)}{share}"
    groups: dict[str, list[Part]] = defaultdict(list)
    for part in shard.parts:
        groups[part.because].append(part)
    for because, parts in sorted(groups.items(), key=lambda group: (group[0] == ALONE, group[1][0].first)):
        count = sum(len(part.cases) for part in parts)
        calls, setup = sum(part.calls for part in parts), sum(part.seconds - part.calls for part in parts)
        paid = f" + {write(setup)} of set-up" if setup else ""
        yield f"  {_tests(count)}, {write(calls)}{paid}: {because}"


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"
