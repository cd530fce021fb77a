"""The terminal section that says why tests did not run, grouped; there is none when nothing was withheld."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from omni_hardware.errors import strip_controls
from pytest_omni.reporting.ledger import Kind, Ledger, State
from pytest_omni.reporting.outcome import Outcome

TITLE = "omni: tests that did not run"
_SHOWN_IDS = 3
_VERBS = {
    State.SKIPPED: "skipped",
    State.DESELECTED: "deselected",
    State.OTHER_SHARD: "in other shards",
    State.NOT_RUN: "not run",
}
# what a person asked for in so many words: a section of its own would repeat it in every run
_ASKED_FOR = {(State.DESELECTED, Kind.MARKS), (State.DESELECTED, Kind.USER), (State.OTHER_SHARD, Kind.SHARD)}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the section; bad = it explains why the session failed."""

    text: str
    bad: bool = False


def lines(ledger: Ledger, outcome: Outcome, *, verbose: bool = False) -> list[Line]:
    """Return the section; [] where nothing was withheld but by the person's own -m, -k or shard.

    verbose: with every node id, not the first few; what strict mode misses is always there in full.
    """
    groups = _groups(ledger)
    asked_for = all((group.state, group.kind) in _ASKED_FOR for group in groups)
    if asked_for and not outcome.because and not ledger.skipped_files:
        return []
    found = [line for group in groups for line in _shown(group, outcome.missing, verbose=verbose)]
    found += [
        Line(f"{nodeid} skipped while it was collected ({Kind.USER}): {reason}")
        for nodeid, reason in ledger.skipped_files.items()
    ]
    found += [Line(sentence, bad=outcome.failed) for sentence in outcome.because]
    return [Line(strip_controls(line.text), line.bad) for line in found]


def brief(ledger: Ledger) -> str:
    """Return the section in one line, for -q: "omni: 2 skipped (hardware), 3 not run (user); without -q …"."""
    counts: Counter[str] = Counter()
    for group in _groups(ledger):
        counts[f"{_VERBS[group.state]} ({group.kind or 'session'})"] += len(group.nodeids)
    if ledger.skipped_files:
        counts[f"skipped while collected ({Kind.USER})"] = len(ledger.skipped_files)
    return f"omni: {', '.join(f'{count} {what}' for what, count in counts.items())}; without -q it says why"


@dataclass(frozen=True, slots=True)
class _Group:
    state: State
    kind: Kind | None
    because: str
    nodeids: tuple[str, ...]


def _groups(ledger: Ledger) -> list[_Group]:
    found: dict[tuple[State, Kind | None, str], list[str]] = defaultdict(list)
    for nodeid, result in ledger.rows():
        if result.state in _VERBS and result.because:
            # of 20 shards, nobody reads which of the other 19 has what
            because = "other jobs run them" if result.state is State.OTHER_SHARD else result.because
            found[result.state, result.kind, because].append(nodeid)
    order = list(_VERBS)
    groups = [_Group(*key, tuple(nodeids)) for key, nodeids in found.items()]
    # the controller of xdist hears of tests in no order that means anything
    return sorted(groups, key=lambda group: (order.index(group.state), -len(group.nodeids), group.because))


def _shown(group: _Group, missing: frozenset[str], *, verbose: bool) -> Iterator[Line]:
    bad = not missing.isdisjoint(group.nodeids)
    count, verb = len(group.nodeids), _VERBS[group.state]
    yield Line(f"{count} {verb} ({group.kind or 'session'}): {group.because}", bad)
    if not verbose and (group.state, group.kind) in _ASKED_FOR:
        return
    shown = group.nodeids if verbose or bad else group.nodeids[:_SHOWN_IDS]
    yield from (Line(f"  {nodeid}", bad) for nodeid in shown)
    if count > len(shown):
        yield Line(f"  … and {count - len(shown)} more (-v shows all)")
