"""How an item of an xdist worker comes by its cards: from what the worker's fixtures hold, else by a lease.

An item waits only while its worker holds nothing, so that no two workers can wait for each other.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omni_hardware.inventory import Inventory
from omni_hardware.requirements import Need
from pytest_omni.cards import runtime_witness
from pytest_omni.cards.lease_table import Lease
from pytest_omni.cards.leases import Ask, LeaseBook, LeaseError, limit_of
from pytest_omni.cards.shares import servers_in
from pytest_omni.cards.worker_visibility import Pin, WorkerView
from pytest_omni.isolation.fresh_process import MARK as FRESH_PROCESS


@dataclass(slots=True, eq=False)
class Kept:
    """A lease and how many (the item, fixtures) still need it."""

    lease: Lease
    users: int = 0


class Leasing:
    """The leases of one worker, and what its process sees meanwhile."""

    def __init__(self, config: pytest.Config, view: WorkerView) -> None:
        self._config = config
        self._view = view
        self._names = _names(view.inventory)
        folder = run_folder(config.getoption("basetemp", None), view.run)
        self._book = LeaseBook(folder, view.worker, self._names)
        self._kept: list[Kept] = []

    def lease(
        self, item: pytest.Item, need: Need, choices: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[Kept, ...]]:
        """Return cards among *choices* for *item* and the leases to release afterwards; show them to this process.

        More than it needs where this process is bound to more. Raises LeaseError where it cannot have them.
        """
        must = self._must(item, need, choices)
        held = tuple(card for kept in self._kept for card in kept.lease.cards)
        have = [card for card in held if card in choices][: need.cards]
        missing = need.cards - len(have)
        bound = tuple(card for card in must if card not in held)
        mine = tuple(self._kept)
        if missing or bound:
            left = [card for card in choices if card not in held]
            own_first = tuple(sorted(left, key=lambda card: card not in self._view.own))
            ask = Ask(item.nodeid, str(need), missing, own_first, bound)
            mine = (*mine, self._take(ask))
            have += mine[-1].lease.cards
        cards = must or tuple(sorted(have[: need.cards]))
        self._view.show(cards)
        self.keep(mine)
        return cards, mine

    def keep(self, kept: tuple[Kept, ...]) -> None:
        """Count one more that needs these leases."""
        for one in kept:
            one.users += 1

    def release(self, kept: tuple[Kept, ...]) -> None:
        """Count one less, and give back what nobody needs any more."""
        for one in kept:
            one.users -= 1
            if one.users <= 0 and one in self._kept:
                self._give_back(one)

    def rest(self, item: pytest.Item) -> None:
        """Show this process its own card again, or what *item* has bound it to."""
        self._bound(item.nodeid)
        self._view.rest()

    def close(self) -> None:
        """Give back everything."""
        while self._kept:
            self._give_back(self._kept[-1])

    def _must(self, item: pytest.Item, need: Need, choices: tuple[int, ...]) -> tuple[int, ...]:
        pin = self._bound("a hook between the tests")  # before anything else is shown
        if pin is None or not _runs_here(item):
            return ()
        if len(pin.cards) < need.cards or not set(pin.cards) <= set(choices):
            cards = ", ".join(self._names[card] for card in pin.cards) or "no card"
            raise LeaseError(
                f"{item.nodeid} needs {need}, but the process of {self._view.worker} is bound to {cards}: "
                f"{pin.because}. Mark the test {FRESH_PROCESS}: it then runs in a process of its own and sees what "
                "it leased"
            )
        return pin.cards

    def _bound(self, by: str) -> Pin | None:
        """Return what this process is bound to; a runtime that nobody has seen before was started by *by*."""
        if sighting := runtime_witness.look(self._config, by):
            self._view.bind(f"{sighting.what}, by {sighting.by}")
        return self._view.pin

    def _take(self, ask: Ask) -> Kept:
        try:
            limit_s = 0.0 if self._kept else limit_of(os.environ)
            kept = Kept(self._book.take(ask, limit_s=limit_s, say=self._say))
        except LeaseError as error:
            hint = _hint(self._kept) if self._kept else ""
            raise LeaseError(f"{error}{hint}") from None
        self._kept.append(kept)
        return kept

    def _give_back(self, kept: Kept) -> None:
        self._kept.remove(kept)
        self._book.give_back(kept.lease)

    def _say(self, line: str) -> None:
        # a worker has no terminal reporter, but its standard error is the controller's
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            sys.stderr.write(f"\nomni: {line}\n")
            sys.stderr.flush()


def run_folder(basetemp: str | None, run: str) -> Path:
    """Return the folder that the workers of *run* share: below the session's own, of which each has a part."""
    root = Path(basetemp).parent if basetemp else Path(tempfile.gettempdir())
    return root / f"omni-leases-{run}"


def _names(inventory: Inventory) -> list[str]:
    return [
        f"card {position} ({device.label}, {device.uuid})" for position, device in enumerate(inventory.listed)
    ]


def _runs_here(item: pytest.Item) -> bool:
    """Return whether the test uses its cards in this process, as far as marks and fixtures tell."""
    if item.get_closest_marker(FRESH_PROCESS) is not None:
        return False
    return not servers_in(item)  # what they start has an environment of its own


def _hint(kept: list[Kept]) -> str:
    what = ", ".join(dict.fromkeys(one.lease.what for one in kept))
    return (
        f". Fixtures of this worker hold cards since {what}, and who holds cards does not wait for more: give every "
        "test that shares the fixture the larger need, so that it is leased at once, or put them into another module"
    )
