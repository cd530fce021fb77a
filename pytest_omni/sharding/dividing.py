"""The rim between pytest and a plan: collected items in, this shard's items left, the others entered in the book."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter

import pytest

from omni_hardware.errors import OmniError
from pytest_omni.reporting.ledger import Kind, ShardFacts, State, ledger_of
from pytest_omni.sharding.affinity import Affinities, nodeid_of
from pytest_omni.sharding.asking import Asked, asked_of, lines_of
from pytest_omni.sharding.bonds import bonds
from pytest_omni.sharding.durations import Durations, load
from pytest_omni.sharding.estimates import seconds_of, setups_of
from pytest_omni.sharding.plan import Plan, plan
from pytest_omni.sharding.suite import Case, Suite
from pytest_omni.sharding.table import plan_lines, shard_lines, unit

DEGRADED = "this pytest does not say what tests share: only omni_server and omni_runner keep them together"
_DURATIONS = pytest.StashKey[Durations]()
_AFFINITIES = pytest.StashKey[Affinities]()


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known about the items, by position."""

    ids: list[str]
    needs: list[tuple[str, ...]]
    groups: list[tuple[str, ...]]


def durations_of(config: pytest.Config) -> Durations:
    """Return what earlier runs measured; pytest.UsageError with every problem of the file."""
    if _DURATIONS not in config.stash:
        path = asked_of(config).durations
        try:
            config.stash[_DURATIONS] = load(path) if path else Durations()
        except OmniError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_DURATIONS]


def affinities_of(config: pytest.Config) -> Affinities:
    """Return who knows what the items of this session share."""
    return config.stash.setdefault(_AFFINITIES, Affinities())


def divide(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the items of this shard, in the order they have; with ``--shard-plan`` leave all, which then do not run."""
    asked, durations = asked_of(config), durations_of(config)
    with _no_search_for_garbage():
        reading = read(config, items)
        found = plan(_suite(reading, durations), asked.shards, asked.by)
    ledger, write = ledger_of(config), unit(measured=bool(durations.tests))
    ledger.shard = ShardFacts(asked.shard, asked.shards, asked.by, found.digest)
    if affinities_of(config).degraded:
        lines_of(config).append(DEGRADED)
    if asked.plan_only:
        lines_of(config).extend(plan_lines(found, write))
        ledger.withhold_all(reading.ids, State.NOT_RUN, "--shard-plan runs nothing", Kind.USER)
        return
    lines_of(config).extend(shard_lines(found, asked.shard, write))
    _enter_others(config, found, asked, reading.ids)
    mine = set(found.shards[asked.shard].cases)
    if gone := [item for at, item in enumerate(items) if at not in mine]:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for at, item in enumerate(items) if at in mine]


def read(config: pytest.Config, items: Sequence[pytest.Item]) -> Reading:
    """Return what decides where *items* may run."""
    affinities = affinities_of(config)
    shared = [affinities.of(item) for item in items]
    name = nodeid_of if config.getoption("loadgroup", default=False) else attrgetter("nodeid")
    return Reading(
        ids=[name(item) for item in items],
        needs=bonds(shared, durations_of(config).fixtures),
        groups=[affinities.groups(item) for item in items],
    )


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Let Python not look for garbage meanwhile.

    A plan is made of some values for each test, none of which is part of a cycle. For so many new values Python would
    search everything that was collected, which for 20,000 tests takes longer than all the rest here.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _suite(reading: Reading, durations: Durations) -> Suite:
    seconds = seconds_of(reading.ids, reading.needs, durations)
    cases = tuple(map(Case, reading.ids, seconds, reading.needs, reading.groups))
    return Suite(cases, setups_of(cases, durations))


def _enter_others(config: pytest.Config, found: Plan, asked: Asked, ids: Sequence[str]) -> None:
    for number, shard in enumerate(found.shards):
        if number != asked.shard:
            because = f"runs in shard {number} of {asked.shards}"
            others = [ids[at] for at in shard.cases]
            ledger_of(config).withhold_all(others, State.OTHER_SHARD, because, Kind.SHARD)
