"""From tests, their durations and what they share to shards with reasons; knows neither pytest nor files.

Every shard works the whole plan out by itself: the same selection gives the same plan, in whatever order it was
collected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_omni.sharding.packing import Placed, marked, pack, pack_groups
from pytest_omni.sharding.suite import Case, Part, Suite, components

ALONE = "by themselves"


@dataclass(frozen=True, slots=True)
class Shard:
    """What one job runs: *cases* are positions in the selection, ascending; *seconds* include every set-up."""

    cases: tuple[int, ...]
    parts: tuple[Part, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A selection divided; *digest* is the same on two machines only where they divided the same tests alike."""

    by: str
    suite: Suite
    shards: tuple[Shard, ...]
    digest: str

    @property
    def ideal(self) -> float:
        """Return the seconds of one shard, if tests could be cut at will and every set-up were paid once."""
        everything = [part for shard in self.shards for part in shard.parts]
        return self.suite.seconds(*everything) / len(self.shards)

    @property
    def total(self) -> float:
        """Return the seconds of all shards together: how long machines are busy."""
        return sum(shard.seconds for shard in self.shards)


@dataclass(frozen=True, slots=True)
class Method:
    """A row of METHODS: *means* completes "tests are divided …"."""

    means: str
    divide: Callable[[Suite, int], Placed]


def plan(suite: Suite, shards: int, by: str = "group") -> Plan:
    """Return *suite* divided into *shards*, some of them empty perhaps; KeyError for a method not in METHODS."""
    found = []
    for parts in METHODS[by].divide(suite, shards):
        cases = tuple(sorted(at for part in parts for at in part.cases))
        found.append(Shard(cases, tuple(parts), suite.seconds(*parts)))
    return Plan(by, suite, tuple(found), _digest(suite, found))


def hash_shard(nodeid: str, shards: int) -> int:
    """Return the shard of *nodeid* as pytest-shard 0.1.2 chooses it."""
    return int.from_bytes(hashlib.sha256(nodeid.encode()).digest(), "little") % shards


def _by_group(suite: Suite, shards: int) -> Placed:
    found = _divided(suite, lambda case: (*case.needs, *marked(case.together)))
    return pack_groups(suite, [suite.part(cases, _bond(suite, cases)) for cases in found], shards)


def _by_duration(suite: Suite, shards: int) -> Placed:
    found = _divided(suite, lambda case: marked(case.together))
    return pack(suite, [suite.part(cases, _bond(suite, cases, fixtures=False)) for cases in found], shards)


def _by_file(suite: Suite, shards: int) -> Placed:
    found = _divided(suite, lambda case: (case.file, *marked(case.together)))
    return pack(suite, [suite.part(cases, suite.cases[cases[0]].file) for cases in found], shards)


def _by_hash(suite: Suite, shards: int) -> Placed:
    found: list[list[Part]] = [[] for _ in range(shards)]
    for at, case in enumerate(suite.cases):
        found[hash_shard(case.id, shards)].append(suite.part((at,), ALONE))
    return found


METHODS: dict[str, Method] = {
    "group": Method("by what they share, the longest group first", _by_group),
    "duration": Method("one by one, the longest first", _by_duration),
    "file": Method("by file, the longest first", _by_file),
    "hash": Method("by a hash of the node id, as pytest-shard does", _by_hash),
}


def _divided(suite: Suite, keys: Callable[[Case], Sequence[object]]) -> list[tuple[int, ...]]:
    found = [keys(case) for case in suite.cases]
    free = [(at,) for at, own in enumerate(found) if not own]  # most tests of a large suite
    return free + components((at for at, own in enumerate(found) if own), found.__getitem__)


def _bond(suite: Suite, cases: Sequence[int], *, fixtures: bool = True) -> str:
    """Return what holds *cases* together."""
    here = [suite.cases[at] for at in cases]
    if len(here) == 1 and not here[0].needs and not here[0].together:
        return ALONE
    needs = sorted({need for case in here for need in case.needs}) if fixtures else []
    marks = sorted({name for case in here for name in case.together})
    return ", ".join([*needs, *(f"xdist_group {name}" for name in marks)]) or ALONE


def _digest(suite: Suite, shards: Sequence[Shard]) -> str:
    lines = sorted(
        f"{suite.cases[at].id}\t{number}" for number, shard in enumerate(shards) for at in shard.cases
    )
    text = "\n".join([str(len(shards)), *lines])
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
