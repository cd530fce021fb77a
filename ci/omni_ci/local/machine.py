"""The devices of this machine: what a job may have of them, and which are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omni_ci.errors import GuardError
from omni_ci.runner.platforms import EXPECTED
from omni_hardware import visibility
from omni_hardware.errors import InfrastructureError
from omni_hardware.inventory import Inventory, judge
from omni_hardware.requirements import Need
from omni_hardware.vocabulary import DEFAULT, Vocabulary


@dataclass(slots=True, kw_only=True)
class Machine:
    """The inventory, and which of its entries jobs hold now."""

    inventory: Inventory
    environ: Mapping[str, str]
    vocabulary: Vocabulary = DEFAULT
    taken: set[int] = field(default_factory=set)

    def why_not(self, need: Need | None) -> str:
        """Return why no job with *need* can ever run here, "" where one can. Raises GuardError: nobody can tell."""
        if need is None or not need.cards:
            return ""
        try:
            verdict = judge(need, self.inventory, vocabulary=self.vocabulary)
        except InfrastructureError as error:
            raise GuardError(f"{error}; name them with --inventory FILE. Nothing was run.") from None
        if verdict.ok and len(self._fitting(need)) >= need.cards:
            return ""
        return verdict.because

    def take(self, need: Need | None) -> tuple[int, ...] | None:
        """Return the devices for a job, which are now its own; () where it needs none, None where too few are free."""
        if need is None or not need.cards:
            return ()
        free = [position for position in self._fitting(need) if position not in self.taken]
        if len(free) < need.cards:
            return None
        chosen = tuple(free[: need.cards])
        self.taken.update(chosen)
        return chosen

    def give_back(self, devices: tuple[int, ...]) -> None:
        """Free the devices of a job that ended."""
        self.taken.difference_update(devices)

    def environment(self, devices: tuple[int, ...]) -> dict[str, str]:
        """Return the environment in which a job sees its *devices* and no others."""
        if not devices:
            return visibility.child_environment(self.environ, "cpu", None)
        platform = self.inventory.platform
        tokens = visibility.selection(self.inventory, self.inventory.visible.environ).tokens
        chosen = [tokens[position] for position in devices]
        found = visibility.child_environment(self.environ, platform, chosen)
        return {**found, EXPECTED: str(len(devices))}

    def _fitting(self, need: Need) -> list[int]:
        listed = self.inventory.listed
        return [
            position
            for position, device in enumerate(listed)
            if not need.skus or device.sku in need.skus or need.platform != self.inventory.platform
        ]
