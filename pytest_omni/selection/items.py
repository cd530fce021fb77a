"""Hardware on the collected tests: derived marks before ``-m`` is judged, then what this machine cannot run.

Both passes are a look-up an item: what marks mean is decided once for equal marks, what the machine can do once a need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_hardware.errors import InfrastructureError
from omni_hardware.inventory import Reason, Verdict, judge
from omni_hardware.requirements import Need, Requirement
from omni_hardware.vocabulary import ANY_SKU
from pytest_omni import usage
from pytest_omni.arming import arming_of
from pytest_omni.machine import Machine, machine_of
from pytest_omni.reporting.ledger import Kind, State, ledger_of
from pytest_omni.selection.mark_names import marks_above, marks_counted
from pytest_omni.selection.placement import Plan, Planner
from pytest_omni.selection.reading import Plans, Reader

_SHOWN_IDS = 20
_PLANS = pytest.StashKey[Plans]()
_UNMET = pytest.StashKey[str]()
_MARKED = pytest.StashKey["tuple[list[pytest.Item], list[int], dict[int, int]]"]()
_PLANNER = pytest.StashKey[Planner]()


def requirement_of(item: pytest.Item) -> Requirement | None:
    """Return what *item* asks for on each platform; None = it runs anywhere."""
    return _plan_of(item).requirement


def need_of(item: pytest.Item) -> Need | None:
    """Return what *item* needs on the asked platform; None = nothing, cards 0 = a CPU test, which sees no device."""
    return _plan_of(item).need


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the derived marks on, before any conftest looks at marks."""
    _take(config, items, derive(config, items))
    config.stash[_MARKED] = (items[:], marks_counted(items), marks_above(items))


@pytest.hookimpl(specname="pytest_collection_modifyitems")
def pytest_omni_derive_again(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Do the same for tests that a conftest has just marked: it came before us, ``-m`` comes after."""
    if changed := _marked_since(items, *config.stash[_MARKED]):
        _take(config, items, derive_again(config, changed))


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_omni_settle(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Withhold what this machine cannot run, among the tests that are left."""
    try:
        settle(config, items)
    except InfrastructureError as error:
        usage.report(config, items, str(error))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is no function: pytest itself fails over a skip mark on an item that stands in no line."""
    if because := item.stash.get(_UNMET, ""):
        pytest.skip(because)


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at all items found: mistakes with the node ids, and tests of other platforms with the reason."""

    problems: dict[str, list[str]]
    elsewhere: dict[str, list[pytest.Item]]


def _marked_since(
    items: list[pytest.Item], before: list[pytest.Item], counts: list[int], above: dict[int, int]
) -> list[pytest.Item]:
    """Return the items with more or fewer marks than *before*, when they had *counts* of their own and *above* them."""
    now = marks_counted(items)
    parents = {parent for parent, _ in marks_above(items).items() - above.items()}
    if items == before:
        if now == counts and not parents:
            return []
    else:  # a dict of 20,000 items costs more than all the rest, and is hardly ever needed
        known = dict(zip(map(id, before), counts, strict=True))
        counts = [known.get(id(item), -1) for item in items]
    return [
        item
        for item, had, has in zip(items, counts, now, strict=True)
        if had != has or id(item.parent) in parents
    ]


def derive(config: pytest.Config, items: Iterable[pytest.Item]) -> Found:
    """Give each item its plan and its derived marks."""
    plans, found = _plans(config), Found(defaultdict(list), defaultdict(list))
    for plan, alike in _reader(config).plans(items):
        plans.keep(alike, plan)
        if plan.marks:
            for item in alike:  # add_marker() costs ten times as much, which a suite of 20,000 feels
                item.own_markers.extend(plan.marks)
                item.keywords.update(plan.keywords)
        elif plan.elsewhere:
            found.elsewhere[plan.elsewhere] += alike
        for problem in plan.problems:
            found.problems[problem] += [item.nodeid for item in alike]
    return found


def derive_again(config: pytest.Config, items: list[pytest.Item]) -> Found:
    """Give items that carry more marks than before a new plan, from what others put on them alone."""
    derived = _planner(config).derived
    for item in items:
        item.own_markers[:] = [mark for mark in item.own_markers if mark not in derived]
    return derive(config, items)


def settle(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the machine lacks cards or memory for, deselect what is made for another SKU.

    Raises InfrastructureError where a test needs devices and the probe could not tell which are here.
    """
    if not _planner(config).needs_devices:
        return
    unmet: dict[str, list[pytest.Item]] = defaultdict(list)
    other_sku: dict[str, list[pytest.Item]] = defaultdict(list)
    plans = _plans(config)
    # by plan, which lives as long as its items: a need costs a hash an item
    verdicts: dict[int, Verdict] = {}
    for item in items:
        plan = plans.get(item)
        if plan is None or plan.need is None or plan.need.cards == 0:
            continue
        verdict = verdicts.get(id(plan))
        if verdict is None:
            verdict = verdicts[id(plan)] = _verdict(config, plan.need)
        if not verdict.ok:
            (other_sku if verdict.reason is Reason.SKU else unmet)[verdict.because].append(item)
    _skip(config, unmet)
    _deselect(config, items, other_sku, owed=_names_sku(config))


def _take(config: pytest.Config, items: list[pytest.Item], found: Found) -> None:
    if found.problems:
        usage.report(config, items, _complaint(_in_order(found.problems, items)))
    else:
        _deselect(config, items, found.elsewhere, owed=False)


def _plan_of(item: pytest.Item) -> Plan:
    plans = _plans(item.config)
    found = plans.get(item)
    if found is None:
        ((found, alone),) = _reader(item.config).plans([item])
        plans.keep(alone, found)
    return found


def _reader(config: pytest.Config) -> Reader:
    return Reader(_planner(config), arming_of(config).vocabulary)


def _plans(config: pytest.Config) -> Plans:
    if _PLANS not in config.stash:
        config.stash[_PLANS] = Plans()
    return config.stash[_PLANS]


def _planner(config: pytest.Config) -> Planner:
    if _PLANNER not in config.stash:
        config.stash[_PLANNER] = Planner(machine_of(config).asked, arming_of(config).vocabulary)
    return config.stash[_PLANNER]


def _verdict(config: pytest.Config, need: Need) -> Verdict:
    machine: Machine = machine_of(config)
    verdict = judge(need, machine.inventory, vocabulary=arming_of(config).vocabulary)
    if verdict.ok or not machine.inventory.source.startswith("file"):
        return verdict
    file = Path(machine.inventory.source.removeprefix("file ")).name
    return Verdict(verdict.ok, f"{verdict.because} (devices from file {file})", verdict.reason)


def _skip(config: pytest.Config, unmet: dict[str, list[pytest.Item]]) -> None:
    heeded = config.pluginmanager.has_plugin("skipping")  # with -p no:skipping nobody reads the mark
    for because, group in unmet.items():
        mark = pytest.mark.skip(reason=because).mark if heeded else None
        for item in group:
            if mark and isinstance(item, pytest.Function):
                item.own_markers.append(mark)
            else:
                item.stash[_UNMET] = because
        ids = [item.nodeid for item in group]
        ledger_of(config).withhold_all(ids, State.SKIPPED, because, Kind.HARDWARE, owed=True)


def _deselect(
    config: pytest.Config, items: list[pytest.Item], groups: dict[str, list[pytest.Item]], *, owed: bool
) -> None:
    if not groups:
        return
    for because, group in groups.items():
        ids = [item.nodeid for item in group]
        ledger_of(config).withhold_all(ids, State.DESELECTED, because, Kind.HARDWARE, owed=owed)
    gone = {id(item) for group in groups.values() for item in group}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in gone])
    items[:] = [item for item in items if id(item) not in gone]


def _names_sku(config: pytest.Config) -> bool:
    expression = machine_of(config).expression
    rows = arming_of(config).vocabulary.platforms
    skus = {sku for row in rows for sku in row.skus if sku != ANY_SKU}
    return expression is not None and not skus.isdisjoint(expression.positive)


def _in_order(problems: dict[str, list[str]], items: list[pytest.Item]) -> dict[str, list[str]]:
    """Return *problems* as the tests were collected, which is not quite how they were read."""
    place = {item.nodeid: number for number, item in enumerate(items)}
    rows = ((problem, sorted(ids, key=place.__getitem__)) for problem, ids in problems.items())
    return dict(sorted(rows, key=lambda row: place[row[1][0]]))


def _without_variants(ids: list[str]) -> Iterator[str]:
    """Yield ids, and for several variants of one test, which stand on one line of its file, the test's."""
    tests: dict[str, list[str]] = defaultdict(list)
    for nodeid in ids:
        tests[nodeid.partition("[")[0]].append(nodeid)
    yield from (test if len(variants) > 1 else variants[0] for test, variants in tests.items())


def _complaint(problems: dict[str, list[str]]) -> str:
    lines = ["hardware marks that cannot be right:"]
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for problem, ids in problems.items():
        together[tuple(_without_variants(ids))] += problem.splitlines()
    for names, told in together.items():
        more = len(names) - _SHOWN_IDS
        shown = [*names[:_SHOWN_IDS], *([f"… and {more} more"] if more > 0 else [])]
        lines += [*(f"  {line}" for line in told), *(f"    {name}" for name in shown)]
    return "\n".join(lines)
