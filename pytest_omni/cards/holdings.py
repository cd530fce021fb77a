"""The cards that this process has at a time: the running item's, and those that fixtures keep longer than it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from omni_hardware.errors import InfrastructureError
from omni_hardware.inventory import Inventory
from omni_hardware.requirements import Need
from pytest_omni.cards import shares
from pytest_omni.cards.grant import Grant
from pytest_omni.cards.worker_visibility import view_of
from pytest_omni.machine import machine_of
from pytest_omni.selection.items import need_of

if TYPE_CHECKING:
    from pytest_omni.cards.leasing import Kept, Leasing

_HOLDINGS = pytest.StashKey["Holdings"]()


@dataclass(frozen=True, slots=True)
class _Stay:
    """One item from set-up to tear-down."""

    grant: Grant
    kept: tuple[Kept, ...] = ()
    what: str = ""


class Holdings:
    """What one process of a run holds; outside xdist nobody else is there, and the first cards that fit are the item's."""

    def __init__(self, config: pytest.Config) -> None:
        self._inventory = machine_of(config).inventory
        self._leasing = _leasing(config)
        self._stay: _Stay | None = None
        self._tenants: list[shares.Tenant] = []

    def enter(self, item: pytest.Item) -> None:
        """Get *item* its cards, before its fixtures are set up; OmniError in words where it cannot have them."""
        need = need_of(item)
        if need is None or need.cards == 0:
            self._stay = _Stay(Grant(need, (), self._inventory))
            return
        shares.require_one_each(item.nodeid, need, shares.servers_in(item), shares.engines_in(item))
        choices = fitting(need, self._inventory)
        if len(choices) < need.cards:
            raise InfrastructureError(
                f"{item.nodeid} needs {need}, and {len(choices)} of the devices here fit"
            )
        if self._leasing is None:
            self._stay = _Stay(Grant(need, choices[: need.cards], self._inventory), what=item.nodeid)
            return
        cards, kept = self._leasing.lease(item, need, choices)
        self._stay = _Stay(Grant(need, cards[: need.cards], self._inventory), kept, item.nodeid)

    def leave(self, item: pytest.Item) -> None:
        """Give back what no fixture keeps."""
        stay, self._stay = self._stay, None
        if self._leasing is not None:
            self._leasing.rest(item)
            self._leasing.release(stay.kept if stay else ())

    @contextmanager
    def keeping(self, server: str | None = None, *, planned: int = 1) -> Iterator[Grant]:
        """Yield the running item's devices and keep them until the end of the context, when the item may be over.

        server: the fixture that starts one on them; it gets the part of one of *planned* servers, and has it alone. An
        engine's fixture counts as one, and gets them all.
        """
        stay = self._stay or _Stay(Grant())
        grant = stay.grant
        if server is not None:
            grant = shares.share(grant, server, self._tenants, what=stay.what, planned=planned)
            self._tenants.append(tenant := shares.Tenant(server, stay.what, grant.positions))
        if self._leasing is not None:
            self._leasing.keep(stay.kept)
        try:
            yield grant
        finally:
            if server is not None:
                self._tenants.remove(tenant)
            if self._leasing is not None:
                self._leasing.release(stay.kept)

    def close(self) -> None:
        """Give back everything: the session is over, whichever way it came."""
        if self._leasing is not None:
            self._leasing.close()


def holdings_of(config: pytest.Config) -> Holdings:
    """Return what this process holds."""
    if _HOLDINGS not in config.stash:
        config.stash[_HOLDINGS] = Holdings(config)
    return config.stash[_HOLDINGS]


def close(config: pytest.Config) -> None:
    """Give back what a broken tear-down left held."""
    if holdings := config.stash.get(_HOLDINGS, None):
        holdings.close()


def fitting(need: Need, inventory: Inventory) -> tuple[int, ...]:
    """Return the positions of the devices, in the caller's list, that are what *need* asks for."""
    borrowed = need.platform != inventory.platform  # another platform's SKUs say nothing about these devices
    floor = need.min_memory_mib
    return tuple(
        position
        for position, device in enumerate(inventory.listed)
        if (borrowed or not need.skus or device.sku in need.skus)
        and (floor is None or (device.memory_mib is not None and device.memory_mib >= floor))
    )


def _leasing(config: pytest.Config) -> Leasing | None:
    if (view := view_of(config)) is None:
        return None
    from pytest_omni.cards.leasing import Leasing  # only a worker pays for it

    return Leasing(config, view)
