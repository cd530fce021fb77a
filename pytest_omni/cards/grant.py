"""The devices that belong to one item, and the environment of a child that shall see them and no others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omni_hardware.errors import InputError
from omni_hardware.inventory import NONE, Device, Inventory

if TYPE_CHECKING:
    from omni_hardware.requirements import Need


@dataclass(frozen=True, slots=True)
class Grant:
    """The devices of an item, in the caller's order: ``len(grant)``, ``grant[0].uuid``, ``for device in grant``.

    need: what the item asked for; None = nothing, and then environ() leaves everything as it is. positions: where the
    devices stand in the list that the caller of pytest made visible.
    """

    need: Need | None = None
    positions: tuple[int, ...] = ()
    inventory: Inventory = NONE

    @property
    def devices(self) -> tuple[Device, ...]:
        """The granted devices; the first is device 0 of a child that gets environ()."""
        listed = self.inventory.listed
        return tuple(listed[position] for position in self.positions)

    def __repr__(self) -> str:
        """Return "Grant(cuda: 0 H100 GPU-1f0a, …)"; the devices' numbers are those of a child."""
        rows = [f"{number} {device.label} {device.uuid}" for number, device in enumerate(self.devices)]
        return f"Grant({self.inventory.platform}: {', '.join(rows)})" if rows else "Grant(no device)"

    def __len__(self) -> int:
        """Return how many devices there are."""
        return len(self.positions)

    def __iter__(self) -> Iterator[Device]:
        """Return an iterator over the devices."""
        return iter(self.devices)

    def __getitem__(self, logical: int) -> Device:
        """Return the device that a child numbers *logical*."""
        return self.devices[logical]

    def environ(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return *base* (os.environ if None) for a child that shall see these devices and no others.

        The caller's list is taken as it was when the session began (pytorch#95073), whatever *base* says by now. A CPU
        test's child sees no device of any platform.
        """
        from omni_hardware.visibility import child_environment, selection, variables

        environ = dict(os.environ if base is None else base)
        if self.need is None:
            return environ
        if not self.positions:
            return child_environment(environ, "cpu", None)
        platform, caller = self.inventory.platform, self.inventory.visible.environ
        tokens = selection(self.inventory, caller).tokens
        taking_part = variables(platform)
        restored = {name: value for name, value in environ.items() if name not in taking_part} | caller
        return child_environment(restored, platform, [tokens[position] for position in self.positions])

    def only(self, *logical: int) -> Grant:
        """Return the part of this grant that one of several children shall have, by device number in the grant.

        Raises InputError for a number that it does not have.
        """
        if beyond := [number for number in logical if not 0 <= number < len(self)]:
            have = f"0 to {len(self) - 1}" if self else "none"
            asked = self.need or "no device"
            raise InputError(f"device {beyond[0]} is not one of this item's: it needs {asked} and has {have}")
        return replace(self, positions=tuple(self.positions[number] for number in logical))
