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
    """A row of METHODS: *means* completes "tests are divided …"; by_name: the number of shards is part of the choice."""

    means: str
    divide: Callable[[Suite, int], Placed]
    by_name: bool = False


def plan(suite: Suite, shards: int, by: str = "group") -> Plan:
    """Return *suite* divided into *shards*, some of them empty perhaps; KeyError for a method not in METHODS."""
    method = METHODS[by]
    # more shards than tests stay empty, and cost nothing to think about
    useful = shards if method.by_name else max(1, min(shards, len(suite.cases)))
    found = []
    for parts in (*method.divide(suite, useful), *[()] * (shards - useful)):
        cases = tuple(sorted(at for part in parts for at in part.cases))
        found.append(Shard(cases, tuple(parts), suite.seconds(*parts)))
    return Plan(by, suite, tuple(found), _digest(suite, found))


def hash_shard(nodeid: str, shards: int) -> int:
    """Return the shard of *nodeid* as pytest-shard 0.1.2 chooses it."""
    return int.from_bytes(hashlib.sha256(nodeid.encode()).digest(), "little") % shards


def _by_group(suite: Suite, shards: int) -> Placed:
    return pack_groups(
        suite, _parts(suite, lambda case: (*case.needs, *marked(case.together)), _bond), shards
    )


def _by_duration(suite: Suite, shards: int) -> Placed:
    return pack(suite, _parts(suite, lambda case: marked(case.together), _mark), shards)


def _by_file(suite: Suite, shards: int) -> Placed:
    found = components(
        range(len(suite.cases)), lambda at: (suite.cases[at].file, *marked(suite.cases[at].together))
    )
    return pack(suite, [suite.part(cases, suite.cases[cases[0]].file) for cases in found], shards)


def _by_hash(suite: Suite, shards: int) -> Placed:
    found: list[list[Part]] = [[] for _ in range(shards)]
    for at, case in enumerate(suite.cases):
        part = suite.part((at,), ALONE) if case.needs else suite.alone(at, ALONE)
        found[hash_shard(case.id, shards)].append(part)
    return found


METHODS: dict[str, Method] = {
    "group": Method("by what they share, the longest group first", _by_group),
    "duration": Method("one by one, the longest first", _by_duration),
    "file": Method("by file, the longest first", _by_file),
    "hash": Method("by a hash of the node id, as pytest-shard does", _by_hash, by_name=True),
}


def _parts(
    suite: Suite, keys: Callable[[Case], Sequence[object]], bond: Callable[[Sequence[Case]], str]
) -> list[Part]:
    """Return the tests that have one of *keys* in common as a part, and each of the others as one."""
    free: list[int] = []
    tied: list[int] = []
    for at, case in enumerate(suite.cases):
        (tied if case.needs or case.together else free).append(at)  # most tests of a large suite are free
    found = {at: keys(suite.cases[at]) for at in tied}
    groups: list[tuple[int, ...]] = [(at,) for at in tied if not found[at]]
    groups += components([at for at in tied if found[at]], found.__getitem__)
    parts = [suite.part(cases, bond([suite.cases[at] for at in cases])) for cases in groups]
    return [*(suite.alone(at, ALONE) for at in free), *parts]


def _bond(cases: Sequence[Case]) -> str:
    """Return what holds *cases* together."""
    needs = sorted({need for case in cases for need in case.needs})
    return ", ".join([*needs, *filter(None, [_mark(cases, "")])])


def _mark(cases: Sequence[Case], nothing: str = ALONE) -> str:
    """Return the xdist groups that hold *cases* together."""
    return (
        ", ".join(
            f"xdist_group {name}" for name in sorted({name for case in cases for name in case.together})
        )
        or nothing
    )


def _digest(suite: Suite, shards: Sequence[Shard]) -> str:
    lines = sorted(
        f"{suite.cases[at].id}\t{number}" for number, shard in enumerate(shards) for at in shard.cases
    )
    text = "\n".join([str(len(shards)), *lines])
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
