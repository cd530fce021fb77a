"""Visibility variables that contradict themselves: what is wrong, and what to write instead where that is certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from omni_hardware import visibility_rules as rules
from omni_hardware.visibility import CUDA_ORDER, PCI_ORDER, Problem
from omni_hardware.visibility_rules import HIDDEN

if TYPE_CHECKING:
    from omni_hardware.inventory import Inventory

_HIP, _CUDA = "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
_MASK = "ZE_AFFINITY_MASK"
_ASCEND = "ASCEND_RT_VISIBLE_DEVICES"


def cuda(environ: Mapping[str, str], inventory: Inventory | None) -> list[Problem]:
    """Numbers that mean other cards to CUDA than to nvidia-smi: fastest first, on a machine with several models."""
    numbers = [token for token in rules.split(environ.get(_CUDA, "")) if token.isdigit()]
    models = {device.name or device.sku for device in inventory.devices} if inventory else set()
    if not numbers or len(models) < 2 or environ.get(CUDA_ORDER) == PCI_ORDER:
        return []
    message = (
        f"{_CUDA}={environ[_CUDA]}: this machine mixes models, and without {CUDA_ORDER}={PCI_ORDER} CUDA counts the "
        f"fastest first; nvidia-smi, and what is said here, counts in bus order"
    )
    return [Problem("cuda", message, {CUDA_ORDER: PCI_ORDER})]


def rocm(environ: Mapping[str, str], inventory: Inventory | None) -> list[Problem]:
    """Unequal lists, one that is missing, an empty one, HIP numbers beyond what ROCR leaves."""
    lists = rules.rocm_lists(environ)
    if inventory is None and _HIP not in lists and rules.ROCR not in environ:
        return []  # a CUDA machine
    if len(set(lists.values())) > 1:
        named = " and ".join(f"{name}={value or repr('')}" for name, value in lists.items())
        return [
            Problem(
                "rocm",
                f"{named} differ: frameworks refuse that at import. Set them to one value, or unset one",
            )
        ]
    found: list[Problem] = []
    if lists:
        value = next(iter(lists.values()))
        found += _beyond_rocr(environ, value)
        wanted = dict.fromkeys((_HIP, _CUDA, *lists), value or HIDDEN)
        if any(environ.get(name) != text for name, text in wanted.items()):
            why = (
                f"{', '.join(lists)} is empty, which HIP itself reads as unset"
                if not value
                else f"{', '.join(lists)}={value}: frameworks expect {_HIP} and {_CUDA} to be equal"
            )
            found.append(Problem("rocm", why, wanted))
    return found


def xpu(environ: Mapping[str, str], _inventory: Inventory | None) -> list[Problem]:
    """Tiles named where devices are numbered, an empty mask."""
    mask, mode = environ.get(_MASK), rules.hierarchy(environ)
    if mask is None:
        return []
    if not mask.strip():
        return [Problem("xpu", f"{_MASK} is empty, which Level Zero reads as unset", {_MASK: HIDDEN})]
    dotted = [token.strip() for token in mask.split(",") if "." in token]
    if dotted and mode != rules.COMPOSITE:
        return [
            Problem(
                "xpu",
                f"{_MASK}={mask}: {', '.join(dotted)} is ignored, since {rules.HIERARCHY} is {mode} and counts each "
                f"tile as a device. Number the tiles, or set {rules.HIERARCHY}={rules.COMPOSITE}",
            )
        ]
    return []


def npu(environ: Mapping[str, str], _inventory: Inventory | None) -> list[Problem]:
    """A list that is not ascending: no device at all, silently."""
    value = environ.get(_ASCEND)
    if value is None:
        return []
    if not value.strip():
        return [Problem("npu", f"{_ASCEND} is empty", {_ASCEND: HIDDEN})]
    if (mended := rules.ascending(value)) == value.replace(" ", ""):
        return []
    return [
        Problem(
            "npu", f"{_ASCEND}={value} is not ascending: the runtime then sees no device", {_ASCEND: mended}
        )
    ]


CHECKS: dict[str, Callable[[Mapping[str, str], Inventory | None], list[Problem]]] = {
    "cuda": cuda,
    "rocm": rocm,
    "xpu": xpu,
    "npu": npu,
}


def _beyond_rocr(environ: Mapping[str, str], value: str) -> list[Problem]:
    outer = environ.get(rules.ROCR)
    if outer is None:
        return []
    left = len(rules.split(outer))
    beyond = [token for token in rules.split(value) if token.isdigit() and int(token) >= left]
    if not beyond:
        return []
    counted = f"0..{left - 1}" if left else "nothing"
    return [
        Problem(
            "rocm",
            f"{rules.ROCR}={outer} leaves {left}, which HIP numbers {counted}: {_HIP}={value} names {beyond[0]}, so it "
            f"and what follows is no device. Count from 0, or unset {rules.ROCR}",
        )
    ]
