"""Who deselected a test, and with which words: pytest's hook says only that somebody did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pytest_omni import usage
from pytest_omni.machine import machine_of
from pytest_omni.reporting.ledger import Kind, State, ledger_of

_UNSAID = "removed by a plugin that did not say so"
_UNKNOWN = "deselected by another plugin"


@dataclass(frozen=True, slots=True)
class _Way:
    """One option of pytest's own that deselects, and how people know it."""

    dest: str
    flag: str
    because: str
    kind: Kind = Kind.USER


_WAYS = (
    _Way("markexpr", "-m", "not selected by -m {value!r}", Kind.MARKS),
    _Way("keyword", "-k", "not selected by -k {value!r}"),
    _Way("deselect", "--deselect", "named by --deselect"),
    _Way("lf", "--last-failed", "not selected by --last-failed"),
    _Way("stepwise", "--stepwise", "not selected by --stepwise"),
)


def enter(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Enter why *items* were deselected; who withheld a test before has said it better."""
    ledger = ledger_of(config)
    unexplained = [item for item in items if ledger.plain(item.nodeid) not in ledger.withheld]
    groups: dict[_Way | None, list[str]] = defaultdict(list)
    active = [way for way in _WAYS if config.getoption(way.dest, None)]
    if len(active) == 1:
        groups[active[0]] = [item.nodeid for item in unexplained]
    else:
        for item in unexplained:
            groups[_guess(config, active, item)].append(item.nodeid)
    for way, nodeids in groups.items():
        because = way.because.format(value=config.getoption(way.dest)) if way else _unclear(active)
        ledger.withhold_all(nodeids, State.DESELECTED, because, way.kind if way else Kind.USER)


def close(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Enter what was collected, is not in the final selection and was deselected by nobody."""
    if usage.is_reported(config):
        return  # nothing runs, and the session says why
    ledger = ledger_of(config)
    gone = sum(entry.state is not State.SKIPPED for entry in ledger.withheld.values())
    if gone + len(items) == len(ledger.collected):
        return
    kept = {item.nodeid for item in items}
    lost = ledger.collected.keys() - ledger.withheld.keys() - kept
    if lost:  # in order, and with xdist's loadgroup every id looks lost
        kept = {ledger.plain(nodeid) for nodeid in kept}
        unsaid = [nodeid for nodeid in ledger.collected if nodeid in lost and nodeid not in kept]
        ledger.withhold_all(unsaid, State.NOT_RUN, _UNSAID, Kind.USER)


def _guess(config: pytest.Config, active: list[_Way], item: pytest.Item) -> _Way | None:
    expression = machine_of(config).expression
    others = [way for way in active if way.kind is not Kind.MARKS]
    marks = {mark.name for mark in item.iter_markers()}
    if len(others) < len(active) and expression and not expression.matches(marks):
        return _WAYS[0]
    return others[0] if len(others) == 1 else None


def _unclear(active: list[_Way]) -> str:
    options = [way.flag for way in active]
    return f"not selected by {' or '.join(options)}" if options else _UNKNOWN
