"""Hardware on the collected tests: derived marks before ``-m`` is judged, then what this machine cannot run.

Both passes are a look-up an item: what marks mean is decided once for equal marks, what the machine can do once a need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_hardware.errors import InfrastructureError, InputError
from omni_hardware.inventory import Reason, Verdict, judge
from omni_hardware.mark_rules import hardware_words
from omni_hardware.requirements import Need, Requirement
from omni_hardware.vocabulary import ANY_SKU, Vocabulary
from pytest_omni import usage
from pytest_omni.arming import arming_of
from pytest_omni.machine import Machine, machine_of
from pytest_omni.marks import MARK, declared_by, mark_of
from pytest_omni.reporting.ledger import Kind, State, ledger_of
from pytest_omni.selection.placement import NOTHING, Plan, Planner

_SHOWN_IDS = 20
_PLAN = pytest.StashKey[Plan]()
_UNMET = pytest.StashKey[str]()
_MARKED = pytest.StashKey["tuple[list[pytest.Item], list[int]]"]()
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
    ledger_of(config).collected.update(dict.fromkeys([item.nodeid for item in items]))
    _take(config, items, derive(config, items))
    config.stash[_MARKED] = (items[:], [len(item.own_markers) for item in items])


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
    items: list[pytest.Item], before: list[pytest.Item], counts: list[int]
) -> list[pytest.Item]:
    """Return the items that carry more or fewer marks than *before*, when they had *counts*."""
    if items != before:  # a dict of 20,000 items costs more than all the rest, and is hardly ever needed
        known = dict(zip(map(id, before), counts, strict=True))
        counts = [known.get(id(item), -1) for item in items]
    return [item for item, count in zip(items, counts, strict=True) if len(item.own_markers) != count]


def derive(config: pytest.Config, items: Iterable[pytest.Item]) -> Found:
    """Give each item its plan and its derived marks."""
    reader = _Reader(_planner(config), arming_of(config).vocabulary)
    found = Found(defaultdict(list), defaultdict(list))
    for item in items:
        plan = reader.plan(item)
        if plan is NOTHING:
            continue
        item.stash[_PLAN] = plan
        if plan.marks:
            # add_marker() costs ten times as much, which a suite of 20,000 feels
            item.own_markers.extend(plan.marks)
            item.keywords.update(plan.keywords)
        elif plan.elsewhere:
            found.elsewhere[plan.elsewhere].append(item)
        for problem in plan.problems:
            found.problems[problem].append(item.nodeid)
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
    verdicts: dict[
        int, Verdict
    ] = {}  # by plan, which lives as long as its items: a need costs a hash an item
    for item in items:
        plan = item.stash.get(_PLAN, NOTHING)
        if plan.need is None or plan.need.cards == 0:
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
        usage.report(config, items, _complaint(found.problems))
    else:
        _deselect(config, items, found.elsewhere, owed=False)


class _Reader:
    """Reads the hardware words off items; what parents say is read once a parent, equal marks are judged once."""

    def __init__(self, planner: Planner, vocabulary: Vocabulary) -> None:
        self._planner = planner
        self._vocabulary = vocabulary
        self._words = frozenset(hardware_words(vocabulary))
        self._parents: dict[int, tuple[str, ...]] = {}
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...]], Plan] = {}
        # tests stand beside their siblings: the parent of the last one, and the plan of all without marks of their own
        self._parent: object = self
        self._above: tuple[str, ...] = ()
        self._bare: Plan | None = None

    def plan(self, item: pytest.Item) -> Plan:
        if item.parent is not self._parent:
            self._enter(item.parent)
        if item.own_markers:
            return self._planned(item, (self._above, _said(item.own_markers)))
        if self._bare is None:
            self._bare = self._planned(item, (self._above, ()))
        return self._bare

    def _enter(self, parent: pytest.Item | pytest.Collector | None) -> None:
        above = self._parents.get(id(parent))
        if above is None:
            above = self._parents[id(parent)] = _said(parent.iter_markers() if parent else ())
        self._parent, self._above, self._bare = parent, above, None

    def _planned(self, item: pytest.Item, key: tuple[tuple[str, ...], tuple[str, ...]]) -> Plan:
        plan = self._plans.get(key)
        if plan is None:
            plan = self._read(item)
            # a mistake names its own line; of two declarations, it depends on where they stand which one counts
            if not plan.problems and sum(mark.name == MARK for mark in item.own_markers) < 2:
                self._plans[key] = plan
        return plan

    def _read(self, item: pytest.Item) -> Plan:
        words = {mark.name for mark in item.iter_markers()} & self._words
        mark = mark_of(item)
        try:
            declared = declared_by(mark).requirement(self._vocabulary) if mark else None
        except InputError as error:
            return Plan(problems=tuple(str(error).splitlines()))
        return self._planner.plan(words, declared)


def _said(marks: Iterable[pytest.Mark]) -> tuple[str, ...]:
    """Return what *marks* say, as something with a hash: the names, and a declaration's content."""
    return tuple([mark.name if mark.name != MARK else _content(mark) for mark in marks])


def _content(mark: pytest.Mark) -> str:
    declared = declared_by(mark)
    return f"{declared.arguments} {declared.only} {declared.misuse}"


def _plan_of(item: pytest.Item) -> Plan:
    if _PLAN not in item.stash:
        config = item.config
        item.stash[_PLAN] = _Reader(_planner(config), arming_of(config).vocabulary).plan(item)
    return item.stash[_PLAN]


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
    for because, group in unmet.items():
        mark = pytest.mark.skip(reason=because).mark
        for item in group:
            if isinstance(item, pytest.Function):
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


def _complaint(problems: dict[str, list[str]]) -> str:
    lines = ["hardware marks that cannot be right:"]
    for problem, ids in problems.items():
        more = len(ids) - _SHOWN_IDS
        shown = ids[:_SHOWN_IDS] + ([f"… and {more} more"] if more > 0 else [])
        lines += [*(f"  {line}" for line in problem.splitlines()), *(f"    {nodeid}" for nodeid in shown)]
    return "\n".join(lines)
