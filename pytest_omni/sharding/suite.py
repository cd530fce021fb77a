"""The values a plan is made from: tests, the fixtures they share, and parts that stay together."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_NOTHING: frozenset[str] = frozenset()


class Case(
    NamedTuple
):  # there is one for each test of a suite: a dataclass takes three times as long to make
    """One test: *seconds* without what is shared; *needs* the fixtures it shares; *together* must not be parted."""

    id: str
    seconds: float
    needs: tuple[str, ...] = ()
    together: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Return the file part of the node id."""
        return self.id.partition("::")[0]


class Part(NamedTuple):
    """Tests that run in one shard; *because* is shown to people, the rest saves adding up again.

    cases: positions in the selection, ascending. seconds: of one job that runs just this; calls: without set-up.
    first: the smallest node id.
    """

    cases: tuple[int, ...]
    because: str
    seconds: float
    calls: float
    needs: frozenset[str]
    first: str


@dataclass(frozen=True, slots=True)
class Suite:
    """The selection; *setups* are the seconds that building each shared fixture costs, once a shard."""

    cases: tuple[Case, ...]
    setups: Mapping[str, float] = field(default_factory=dict)

    def part(self, positions: Iterable[int], because: str) -> Part:
        """Return the tests at *positions*, at least one, as a part."""
        cases = tuple(sorted(positions))
        here = [self.cases[at] for at in cases]
        needs = frozenset(need for case in here for need in case.needs)
        # fsum: the sum must not depend on the order of collection, or two shards would plan differently
        calls = math.fsum(case.seconds for case in here)
        return Part(cases, because, calls + self.setup(needs), calls, needs, min(case.id for case in here))

    def alone(self, position: int, because: str) -> Part:
        """Return the test at *position*, which shares nothing, as a part."""
        only = self.cases[position]
        return Part((position,), because, only.seconds, only.seconds, _NOTHING, only.id)

    def setup(self, needs: frozenset[str]) -> float:
        """Return the seconds of building *needs* once."""
        return math.fsum(self.setups.get(need, 0.0) for need in needs) if needs else 0.0

    def seconds(self, *parts: Part) -> float:
        """Return the seconds of one job that runs *parts*."""
        calls = math.fsum(part.calls for part in parts)
        return calls + self.setup(_NOTHING.union(*(part.needs for part in parts)))


def components(positions: Iterable[int], keys: Callable[[int], Iterable[Hashable]]) -> list[tuple[int, ...]]:
    """Return *positions* in groups that have a key in common, directly or through others; first position first."""
    root: dict[int, int] = {}

    def find(position: int) -> int:
        while root[position] != position:
            root[position] = root[root[position]]
            position = root[position]
        return position

    home: dict[Hashable, int] = {}
    for position in positions:
        root[position] = position
        for key in keys(position):
            root[find(position)] = find(home.setdefault(key, position))
    groups: dict[int, list[int]] = {}
    for position in sorted(root):
        groups.setdefault(find(position), []).append(position)
    return [tuple(group) for group in groups.values()]
