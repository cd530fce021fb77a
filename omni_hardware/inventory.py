"""What a machine has and what this process may see of it: one frozen value, decided on everywhere, probed once.

A snapshot: later edits of the environment, or a card that falls off the bus, change no decision (pytorch#95073).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_hardware import inventory_format
from omni_hardware.errors import InfrastructureError, InputError, strip_controls
from omni_hardware.vocabulary import DEFAULT, Vocabulary

if TYPE_CHECKING:
    from omni_hardware.requirements import Need
    from omni_hardware.visibility import Selection

CPU = "cpu"
_MIB_A_GIB = 1024


@dataclass(frozen=True, slots=True)
class Device:
    """One device that a process can compute on.

    index: its number in the platform's own counting; MIG instances of one card share the card's number, so that
    *uuid* is what identifies a device (a vendor without UUIDs gives the bus address). sku: the vocabulary's word, None
    for a product that it does not know. memory_mib, used_mib: None where the tool does not say. mig: the instance's
    profile ("1g.18gb"), and parent its card's UUID. tiles: how many devices an xpu card is under
    ZE_FLAT_DEVICE_HIERARCHY=FLAT.
    """

    index: int
    uuid: str
    sku: str | None = None
    memory_mib: int | None = None
    used_mib: int | None = None
    mig: str | None = None
    name: str = ""
    parent: str | None = None
    tiles: int = 1

    @property
    def label(self) -> str:
        """Return what a person calls it: the SKU, else the product's name; a MIG instance says its profile."""
        known = self.sku or self.name or "unknown model"
        return f"{known} MIG {self.mig}" if self.mig else known


@dataclass(frozen=True, slots=True)
class Visible:
    """The variable that limits what is seen; value None = unset, "" or "-1" = none.

    also: every other variable of the platform that takes part (ROCR_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, …).
    """

    variable: str | None = None
    value: str | None = None
    also: tuple[tuple[str, str], ...] = ()

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables as they stood when the snapshot was taken."""
        own = {self.variable: self.value} if self.variable and self.value is not None else {}
        return {**dict(self.also), **own}


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Device memory that one process holds, in MiB; index is the device's."""

    pid: int
    index: int
    used_mib: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices of one platform on this machine, and what limits their use.

    error: why the probe failed; never to be read as "no devices". source: "probe", "file PATH" or "none".
    """

    platform: str
    driver: str | None = None
    error: str | None = None
    devices: tuple[Device, ...] = ()
    visible: Visible = Visible()
    processes: tuple[ProcessMemory, ...] = ()
    facts: Mapping[str, Any] | None = None
    source: str = "none"

    @property
    def seen(self) -> tuple[Device, ...]:
        """Return the devices that one process sees, in the order in which it numbers them."""
        return self._selection().seen

    @property
    def listed(self) -> tuple[Device, ...]:
        """Return every device that may be handed out, in the caller's order.

        More than `seen` only with MIG: one process sees one instance, several processes one each.
        """
        return self._selection().listed

    @property
    def limit(self) -> str:
        """Return "CUDA_VISIBLE_DEVICES=0,1 of 8", or why nothing is seen; "" where no variable limits."""
        return self._selection().because

    def to_json(self) -> dict[str, Any]:
        """Return the inventory.json document (schema 1)."""
        return inventory_format.dump(self)

    @staticmethod
    def from_json(document: object, *, where: str = "inventory", source: str = "probe") -> Inventory:
        """Return the inventory of a document; InputError has one line for each problem, after *where*."""
        return _built(inventory_format.checked(document, where=where), source=source)

    def _selection(self) -> Selection:
        from omni_hardware.visibility import selection  # the vendors' rules, for who has devices

        return selection(self, self.visible.environ)


NONE = Inventory(CPU)


class Reason(StrEnum):
    """Why a need is met or not."""

    OK = "ok"
    NO_DEVICE = "no_device"
    PLATFORM = "platform"
    SKU = "sku"
    CARDS = "cards"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a machine meets a need, and the sentence that says why."""

    ok: bool
    because: str
    reason: Reason


def judge(need: Need, inventory: Inventory, *, vocabulary: Vocabulary = DEFAULT) -> Verdict:
    """Return whether *inventory* meets *need*, and why.

    Every machine meets a cpu need. Raises InfrastructureError where the probe failed: that must end the session, since
    "could not ask" read as "no devices" skips tests that should have run (torchrec#4226).
    """
    if need.platform == CPU:
        return Verdict(True, f"needs {need}", Reason.OK)
    if inventory.error is not None:
        raise InfrastructureError(
            f"cannot tell which {inventory.platform} devices are here: {inventory.error}"
        )
    reason, sight = _reason(need, inventory, vocabulary)
    return Verdict(reason is Reason.OK, f"needs {need}, sees {sight}", reason)


def describe(devices: Iterable[Device]) -> str:
    """Return "H100×2, L4", or "none"; the order is that of the first of each."""
    counts = Counter(device.label for device in devices)
    shown = ", ".join(label if count == 1 else f"{label}×{count}" for label, count in counts.items())
    return strip_controls(shown) or "none"


def gibibytes(mib: int) -> str:
    """Return "80 GiB" or "79.6 GiB"."""
    return f"{mib / _MIB_A_GIB:.1f}".removesuffix(".0") + " GiB"


def load_inventory(
    path: str | Path, *, environ: Mapping[str, str] | None = None, vocabulary: Vocabulary | None = None
) -> Inventory:
    """Return the inventory in a file; where the file has no "visible", *environ*'s variables limit what is seen.

    Raises InputError naming the file, every problem at once, unknown keys with the nearest valid one; with a
    *vocabulary*, also SKUs that it does not have.
    """
    path = Path(path)
    try:
        document = json.loads(path.read_text("utf-8"), object_pairs_hook=inventory_format.no_key_twice)
    except InputError as error:
        raise InputError(strip_controls(f"{path}: {error}")) from None
    except OSError as error:
        raise InputError(f"{path}: the inventory cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the inventory is not UTF-8") from error
    except RecursionError as error:
        raise InputError(f"{path}: the inventory is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    checked = inventory_format.checked(document, where=str(path), vocabulary=vocabulary)
    if "visible" not in checked and environ is not None:
        from omni_hardware.visibility import visible

        checked["visible"] = visible(checked["platform"], environ)
    # absolute: it is read again for the memory of processes, wherever a test has gone by then
    return _built(checked, source=f"file {path.absolute()}")


def _built(checked: dict[str, Any], *, source: str) -> Inventory:
    visible = checked.get("visible", Visible())
    if isinstance(visible, dict):
        also = tuple(sorted(visible.get("also", {}).items()))
        visible = Visible(visible.get("variable"), visible.get("value"), also)
    return Inventory(
        platform=checked["platform"],
        driver=checked.get("driver"),
        error=checked.get("error"),
        devices=tuple(Device(**row) for row in checked.get("devices", ())),
        visible=visible,
        processes=tuple(ProcessMemory(**row) for row in checked.get("processes", ())),
        facts=checked.get("facts"),
        source=source,
    )


def _reason(need: Need, inventory: Inventory, vocabulary: Vocabulary) -> tuple[Reason, str]:
    seen = inventory.seen
    sight = f"{describe(seen)} ({inventory.limit})" if inventory.limit else describe(seen)
    if not seen:
        return Reason.NO_DEVICE, sight
    row = vocabulary.platform(inventory.platform)
    borrowed = row is not None and need.platform in row.runs_items_of
    if need.platform != inventory.platform and not borrowed:
        return Reason.PLATFORM, f"{inventory.platform} {sight}"
    # the SKUs of a borrowed item name another platform's products: they cannot be asked of this one
    fits = [device for device in seen if borrowed or not need.skus or device.sku in need.skus]
    if not fits:
        return Reason.SKU, sight
    if len(fits) < need.cards:
        return Reason.CARDS, sight
    if (floor := need.min_memory_mib) is not None:
        large = [device for device in fits if device.memory_mib is not None and device.memory_mib >= floor]
        if len(large) < need.cards:
            return Reason.MEMORY, f"{sight} with {_sizes(fits)}"
    return Reason.OK, sight


def _sizes(devices: Iterable[Device]) -> str:
    sizes = {
        "unknown memory" if device.memory_mib is None else gibibytes(device.memory_mib) for device in devices
    }
    return ", ".join(sorted(sizes))
