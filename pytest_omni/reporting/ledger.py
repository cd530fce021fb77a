"""What became of every collected test, and why: the book that guards, summary and report read.

A test that did not run is entered by whoever withheld it. Workers of pytest-xdist keep a book of their own; what they
enter before the first test travels with their first report, so that an interrupted session has it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import pytest


class State(StrEnum):
    """What became of one test; the words of report.json."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    SKIPPED = "skipped"
    DESELECTED = "deselected"
    OTHER_SHARD = "other_shard"
    NOT_RUN = "not_run"


class Kind(StrEnum):
    """Who withheld a test: the machine, the run level, ``-m``, the shard, a person, a limit on failures or time."""

    HARDWARE = "hardware"
    LEVEL = "level"
    MARKS = "marks"
    SHARD = "shard"
    USER = "user"
    BUDGET = "budget"


RAN = frozenset({State.PASSED, State.FAILED, State.ERROR, State.XFAILED, State.XPASSED})


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why one test does not run, in words for people; *owed* = the lane promised to run it: strict mode fails."""

    state: State
    because: str
    kind: Kind
    owed: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How one test went so far; durations in seconds, *because* and *kind* where it did not pass."""

    state: State
    because: str | None = None
    kind: Kind | None = None
    setup_s: float = 0.0
    call_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """Which part of the selection this run is, 0-based; *digest* names the whole selection."""

    id: int
    of: int
    by: str
    digest: str


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """One server that has ended; *ready_s* None = it never was. Words: term kill crash; recorded lost off.

    *alive_s*: from its start until its last process was gone, what its cards were paid for. *weights* is what it was
    told to load (dummy tiny real), *because* why, for people.
    """

    model: str
    ready_s: float | None
    alive_s: float
    stopped: str
    coverage: str
    weights: str
    because: str


class Ledger:
    """The book of one process. Node ids are its keys: a test that is collected twice is entered once."""

    def __init__(self) -> None:
        self.collected: dict[str, None] = {}
        self.withheld: dict[str, Withheld] = {}
        self.results: dict[str, Result] = {}
        self.skipped_files: dict[
            str, str
        ] = {}  # files that were skipped while they were collected, with the reason
        self.servers: list[ServerRecord] = []
        self.shard: ShardFacts | None = None
        self.weights: str | None = None  # dummy, tiny or real, once somebody patched a model
        self.selected: dict[str, None] = {}  # what workers said they would run
        self.renamed: dict[str, str] = {}  # xdist's loadgroup adds "@group" to ids

    def withhold(self, nodeid: str, state: str, because: str, kind: str) -> None:
        """Enter why *nodeid* does not run, in the words of report.json; the first entry of a test stands, unless it is a skip."""
        self.withhold_all((nodeid,), state, because, kind)

    def withhold_all(
        self, nodeids: Iterable[str], state: str, because: str, kind: str, *, owed: bool = False
    ) -> None:
        """Enter one reason for many tests; ValueError for a state or kind that report.json does not know.

        A skip gives way to what comes after it: a test that is then left to another shard is not this run's to skip.
        """
        entry = Withheld(State(state), because, Kind(kind), owed)
        withheld, collected = self.withheld, self.collected
        for nodeid in nodeids:
            plain = nodeid if nodeid in collected else self.plain(nodeid)
            before = withheld.get(plain)
            if before is None or before.state is State.SKIPPED:
                withheld[plain] = entry

    def rename(self, changed: Mapping[str, str]) -> None:
        """Enter under which id each test is known after collection, old → new; what xdist's loadgroup adds, stays out."""
        now = {old: old if new.startswith(f"{old}@") else new for old, new in changed.items()}
        self.collected = {now.get(nodeid, nodeid): None for nodeid in self.collected}
        self.withheld = {now.get(nodeid, nodeid): entry for nodeid, entry in self.withheld.items()}

    def forget_unfinished(self) -> None:
        """Take out what was set up and never called: in a session that only lists, nothing broke off."""
        self.results = {key: found for key, found in self.results.items() if found.state is not State.NOT_RUN}

    def plain(self, nodeid: str) -> str:
        """Return the id under which a test was collected; xdist's loadgroup adds "@group" to it later."""
        if nodeid in self.collected or "@" not in nodeid:
            return nodeid
        if nodeid not in self.renamed:
            bare = nodeid.rpartition("@")[0]
            if bare not in self.collected:
                return nodeid
            self.renamed[nodeid] = bare
        return self.renamed[nodeid]

    def rows(self) -> Iterator[tuple[str, Result]]:
        """Yield every collected test once, in collection order, with what became of it."""
        found: list[Iterable[str]] = [
            self.collected,
            self.withheld,
            map(self.plain, self.selected),
            self.results,
        ]
        for nodeid in dict.fromkeys(chain.from_iterable(found)):
            yield nodeid, self._row(nodeid)

    def _row(self, nodeid: str) -> Result:
        if result := self.results.get(nodeid):
            return result
        entry = self.withheld.get(nodeid)
        if entry is None:
            return Result(State.NOT_RUN)
        # a skip whose turn never came was not run: the session ended before
        state = State.NOT_RUN if entry.state is State.SKIPPED else entry.state
        return Result(state, entry.because, entry.kind)


_LEDGER = pytest.StashKey[Ledger]()


def ledger_of(config: pytest.Config) -> Ledger:
    """Return the session's book."""
    if _LEDGER not in config.stash:
        config.stash[_LEDGER] = Ledger()
    return config.stash[_LEDGER]


def packed(ledger: Ledger, *, ids: bool) -> dict[str, Any]:
    """Return a worker's book in types that xdist can carry; *ids* = with every collected node id, for the report."""
    groups: dict[Withheld, list[str]] = defaultdict(list)
    for nodeid, entry in ledger.withheld.items():
        groups[entry].append(nodeid)
    return {
        "collected": list(ledger.collected) if ids else [],
        "withheld": [
            [str(entry.state), entry.because, str(entry.kind), entry.owed, nodeids]
            for entry, nodeids in groups.items()
        ],
        "servers": [asdict(record) for record in ledger.servers],
        "shard": asdict(ledger.shard) if ledger.shard else None,
        "weights": ledger.weights,
        "renamed": ledger.renamed,
    }


def merge(ledger: Ledger, sent: Mapping[str, Any]) -> None:
    """Enter what a worker sent; entries are the same in every worker, servers are each worker's own."""
    ledger.collected.update(dict.fromkeys(sent["collected"]))
    for state, because, kind, owed, nodeids in sent["withheld"]:
        ledger.withhold_all(nodeids, state, because, kind, owed=owed)
    ledger.servers += [ServerRecord(**record) for record in sent["servers"]]
    ledger.shard = ShardFacts(**sent["shard"]) if sent["shard"] else ledger.shard
    if sent["weights"]:
        ledger.weights = _deepest(ledger.weights, sent["weights"])
    ledger.renamed.update(sent["renamed"])


def _deepest(*found: str | None) -> str | None:
    from pytest_omni.weights import deepest  # only where workers patched models

    return deepest({word for word in found if word})
