"""Placing parts on shards: the longest first, each where it ends earliest; and whether to split a part too long.

Graham 1969 (LPT): where parts share nothing, no shard is longer than ideal + (1 - 1/N) of the longest part.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from pytest_omni.sharding.suite import Part, Suite, components

# How much longer than an even share a part may be before a split is looked at.
TOLERANCE = 0.05

Placed = Sequence[Sequence[Part]]


def pack(suite: Suite, parts: Sequence[Part], shards: int) -> Placed:
    """Return which parts each shard runs; a fixture that a shard has built already costs it nothing again."""
    loads, placed = _Loads(suite, shards), [list[Part]() for _ in range(shards)]
    users = Counter(need for part in parts for need in part.needs)
    # the node id decides among equals, never the order of collection, which a plugin may shuffle
    for part in sorted(parts, key=lambda part: (-part.seconds, part.first)):
        shared = any(users[need] > 1 for need in part.needs)
        shard = loads.earliest(part) if shared else loads.emptiest()
        loads.add(shard, part)
        placed[shard].append(part)
    return placed


def pack_groups(suite: Suite, parts: Sequence[Part], shards: int) -> Placed:
    """Return the cheapest packing of *parts*, those split that are too long for one shard and worth it.

    A split builds the shared fixtures again, so the longest, the two longest, … are tried, and the packing with the
    lowest wall time times machine time is taken; among equals the one with fewer splits.
    """
    limit = (1 + TOLERANCE) * sum(part.seconds for part in parts) / shards
    kept = sorted(parts, key=lambda part: (-part.seconds, part.first))
    best = pack(suite, kept, shards)
    pieces: list[Part] = []
    for whole in list(kept):
        if whole.seconds <= limit:
            break
        kept.remove(whole)
        pieces += split(suite, whole, shards, limit=limit)
        best = min(best, pack(suite, [*pieces, *kept], shards), key=lambda placed: cost(suite, placed))
    return best


def cost(suite: Suite, placed: Placed) -> float:
    """Return wall time times machine time: splitting wins when the wall shrinks by a larger factor than that grows."""
    seconds = [suite.seconds(*parts) for parts in placed]
    return max(seconds, default=0.0) * sum(seconds)


def split(suite: Suite, part: Part, shards: int, *, limit: float) -> list[Part]:
    """Return *part* in as many pieces as are cheapest by themselves, as few as come under *limit*; or as it is."""
    units = _units(suite, part)
    if len(units) == 1:
        return [part]
    units = [
        piece
        for unit in units
        for piece in ([unit] if unit.seconds <= limit else split(suite, unit, shards, limit=limit))
    ]
    best: Placed = [[part]]
    for count in range(2, min(shards, len(units)) + 1):
        tried = [parts for parts in pack(suite, units, count) if parts]
        best = min(best, tried, key=lambda placed: cost(suite, placed))
        if max(suite.seconds(*parts) for parts in tried) <= limit:
            break
    if len(best) == 1:
        return [part]
    because = f"{part.because} (split in {len(best)}: set-up is paid again)"
    return [suite.part((at for unit in units for at in unit.cases), because) for units in best]


class _Loads:
    """How long each shard takes so far, and which fixtures it has built already."""

    def __init__(self, suite: Suite, shards: int) -> None:
        self._suite = suite
        self._seconds = [0.0] * shards
        self._built: list[frozenset[str]] = [frozenset()] * shards
        self._queue = [(0.0, shard) for shard in range(shards)]

    def emptiest(self) -> int:
        """Return the shard that ends first, the lowest number among equals."""
        while self._queue[0][0] != self._seconds[self._queue[0][1]]:  # written before that shard grew
            heapq.heappop(self._queue)
        return self._queue[0][1]

    def earliest(self, part: Part) -> int:
        """Return the shard where *part* ends first, what is built there already taken into account."""
        return min(range(len(self._seconds)), key=lambda shard: (self._start(shard, part), shard))

    def add(self, shard: int, part: Part) -> None:
        """Put *part* there."""
        self._seconds[shard] = self._start(shard, part) + part.calls
        self._built[shard] |= part.needs
        heapq.heappush(self._queue, (self._seconds[shard], shard))

    def _start(self, shard: int, part: Part) -> float:
        missing = part.needs - self._built[shard] if part.needs else part.needs
        return self._seconds[shard] + self._suite.setup(missing)


def _units(suite: Suite, part: Part) -> list[Part]:
    """Return what *part* falls into when the fixture that most of it shares is given up, then the next, …"""
    users = Counter(need for at in part.cases for need in suite.cases[at].needs)
    widest_first = sorted(users, key=lambda need: (-users[need], need))
    for given_up in range(1, len(widest_first) + 1):
        found = components(part.cases, _bonds(suite, frozenset(widest_first[given_up:])))
        if len(found) > 1:
            return [suite.part(cases, part.because) for cases in found]
    return [part]


def _bonds(suite: Suite, needs: frozenset[str]) -> Callable[[int], Iterable[Hashable]]:
    def bonds(at: int) -> Iterable[Hashable]:
        case = suite.cases[at]
        return [*needs.intersection(case.needs), *marked(case.together)]

    return bonds


def marked(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the keys of the xdist groups *names*, which no fixture's key equals."""
    return [("xdist_group", name) for name in names]
