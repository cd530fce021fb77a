"""How each vendor's runtime reads its visibility variables: one function a platform, from devices to what is seen.

What the runtimes do with odd values is taken from their sources and documents: CUDA programming guide (environment
variables), CUDA MIG guide (enumeration), ROCm clr and ROCR-Runtime, Intel compute-runtime, CANN. The gaps, named: a
CUDA or HIP list that names a device twice counts as empty, as torch counts it; how CANN and MUSA treat an unknown
number is assumed to be CUDA's way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omni_hardware.inventory import Device

HIDDEN = "-1"  # an empty value hides nothing from HIP and Level Zero; this does on every platform
FLAT, COMPOSITE, COMBINED = "FLAT", "COMPOSITE", "COMBINED"
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
SELECTOR = "ONEAPI_DEVICE_SELECTOR"
ROCR = "ROCR_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Entry:
    """A device that may be handed out, and what names it in the platform's variable, as the caller wrote it."""

    device: Device
    token: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The entries a caller's variables leave, what one process sees of them, and why not more."""

    entries: tuple[Entry, ...]
    seen: tuple[Device, ...]
    why: str = ""


Find = Callable[[str, Sequence["Device"]], "Device | None"]


def split(value: str) -> tuple[str, ...]:
    """Return the entries of a list up to the first that names nothing; "" and "-1" name nothing.

    >>> split("GPU-8932f937, MIG-1"), split("1,-1,0"), split("")
    (('GPU-8932f937', 'MIG-1'), ('1',), ())
    """
    found: list[str] = []
    for token in (part.strip() for part in value.split(",")):
        if not token or token.startswith("-"):
            break
        found.append(token)
    return tuple(found)


def everything(devices: Sequence[Device], _value: str | None, _environ: Mapping[str, str]) -> Choice:
    """A platform without variables."""
    return Choice(tuple(Entry(d, str(i)) for i, d in enumerate(devices)), tuple(devices))


def cuda(devices: Sequence[Device], value: str | None, _environ: Mapping[str, str]) -> Choice:
    """Numbers, UUIDs, any unique beginning of one; an unknown one ends the list; a process sees one MIG instance."""
    if value is None:
        entries = tuple(Entry(d, d.uuid if d.mig else str(d.index)) for d in devices)
        why = ""
    else:
        entries, why = _in_order(value, devices, _cuda_device)
    instances = [entry.device for entry in entries if entry.device.mig]
    if not instances:
        return Choice(entries, tuple(entry.device for entry in entries), why)
    alone = "" if len(entries) == 1 else "a process sees one MIG instance, and no whole card beside it"
    return Choice(entries, (instances[0],), why or alone)


def rocm(devices: Sequence[Device], _value: str | None, environ: Mapping[str, str]) -> Choice:
    """ROCR_VISIBLE_DEVICES first; the HIP list numbers what it left; unequal lists are refused."""
    lists = rocm_lists(environ)
    value = next(iter(lists.values()), None)
    if len(set(lists.values())) > 1:
        named = " and ".join(f"{name}={text}" for name, text in lists.items())
        return Choice((), (), f"{named} differ, which frameworks refuse at import; set them to one value")
    base, why = tuple(devices), ""
    if (outer := environ.get(ROCR)) is not None:
        kept, why = _in_order(outer, devices, _hip_device)
        base = tuple(entry.device for entry in kept)
        if value is not None and not why:
            why = f"{ROCR} leaves {len(base)}, which HIP numbers from 0"
    if value is None:
        entries = tuple(Entry(device, str(position)) for position, device in enumerate(base))
    else:
        entries, cut = _in_order(value, base, _hip_device)
        why = "; ".join(part for part in (why, cut) if part)
    limited = len(entries) < len(devices)
    return Choice(entries, tuple(entry.device for entry in entries), why if limited else "")


def rocm_lists(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that HIP programs read as one list, those that are set."""
    names = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
    return {name: environ[name] for name in names if name in environ}


def npu(devices: Sequence[Device], value: str | None, _environ: Mapping[str, str]) -> Choice:
    """Numbers in ascending order; any other order leaves none, silently (Trinity-RFT#618)."""
    if value is None:
        return everything(devices, None, {})
    if (mended := ascending(value)) != value.replace(" ", ""):
        return Choice((), (), f"not in ascending order, so the runtime sees none; write {mended}")
    entries, why = _in_order(value, devices, _numbered)
    return Choice(entries, tuple(entry.device for entry in entries), why)


def ascending(value: str) -> str:
    """Return the list with its numbers in ascending order; unchanged where it holds anything else.

    >>> ascending("1,0"), ascending("0,1"), ascending("-1")
    ('0,1', '0,1', '-1')
    """
    tokens = [part.strip() for part in value.split(",")]
    if not all(_is_number(token) for token in tokens):
        return value.replace(" ", "")
    return ",".join(str(number) for number in sorted({int(token) for token in tokens}))


def musa(devices: Sequence[Device], value: str | None, _environ: Mapping[str, str]) -> Choice:
    """Numbers, read as CUDA reads them."""
    if value is None:
        return everything(devices, None, {})
    entries, why = _in_order(value, devices, _cuda_device)
    return Choice(entries, tuple(entry.device for entry in entries), why)


def xpu(devices: Sequence[Device], value: str | None, environ: Mapping[str, str]) -> Choice:
    """A mask over cards (COMPOSITE) or tiles (FLAT, COMBINED); the driver's order stays; unknown entries are skipped."""
    units, why = _masked(devices, value, environ)
    selector = environ.get(SELECTOR)
    if selector is not None:
        kept = selected(selector, len(units))
        if isinstance(kept, str):
            return Choice((), (), kept)
        units = tuple(units[position] for position in kept)
        why = why or (f"{SELECTOR}={selector}" if value is None else f"then {SELECTOR}={selector}")
    return Choice(units, tuple(entry.device for entry in units), why)


def hierarchy(environ: Mapping[str, str]) -> str:
    """Return how Level Zero counts: FLAT, COMPOSITE or COMBINED; anything else is the driver's default, FLAT."""
    asked = environ.get(HIERARCHY, FLAT)
    return asked if asked in {FLAT, COMPOSITE, COMBINED} else FLAT


def selected(selector: str, count: int) -> tuple[int, ...] | str:
    """Return which of *count* Level Zero devices ONEAPI_DEVICE_SELECTOR leaves, or why it cannot be judged.

    >>> selected("level_zero:1", 2), selected("opencl:*", 2), selected("!level_zero:0", 2)
    ((1,), (), (1,))
    """
    wanted: set[int] = set()
    dropped: set[int] = set()
    terms = [term.strip().lower() for term in selector.split(";") if term.strip()]
    for term in terms:
        backend, colon, names = term.lstrip("!").partition(":")
        if not colon:
            return f"{SELECTOR}={selector}: {term!r} is not backend:devices"
        if backend not in {"level_zero", "*"}:
            continue
        for name in names.split(","):
            if name in {"*", "gpu"}:
                found = set(range(count))
            elif _is_number(name):
                found = {int(name)} & set(range(count))
            elif name in {"cpu", "fpga", "npu"}:
                found = set()
            else:
                return f"{SELECTOR}={selector}: {name!r} is more than we can judge; use {HIERARCHY} and ZE_AFFINITY_MASK"
            (dropped if term.startswith("!") else wanted).update(found)
    if all(term.startswith("!") for term in terms):
        wanted = set(range(count))
    return tuple(sorted(wanted - dropped))


def _masked(
    devices: Sequence[Device], value: str | None, environ: Mapping[str, str]
) -> tuple[tuple[Entry, ...], str]:
    mode = hierarchy(environ)
    if mode == COMPOSITE:
        chosen, ignored = _cards(devices, value)
    else:
        chosen, ignored = _flat(devices, value)
    if not ignored:
        return chosen, ""
    what = "tiles" if mode != COMPOSITE else "cards"
    return chosen, f"{', '.join(map(repr, ignored))} ignored: {HIERARCHY} is {mode}, which numbers {what}"


def _flat(devices: Sequence[Device], value: str | None) -> tuple[tuple[Entry, ...], list[str]]:
    tiles = [tile for card in devices for tile in _tiles(card)]
    tokens = None if value is None else [part.strip() for part in value.split(",") if part.strip()]
    ignored = [] if tokens is None else [t for t in tokens if not _is_number(t) or int(t) >= len(tiles)]
    kept = range(len(tiles)) if tokens is None else sorted({int(t) for t in tokens if t not in ignored})
    return tuple(Entry(tiles[number], str(number)) for number in kept), [t for t in ignored if t != HIDDEN]


def _cards(devices: Sequence[Device], value: str | None) -> tuple[tuple[Entry, ...], list[str]]:
    if value is None:
        return everything(devices, None, {}).entries, []
    wanted: dict[int, set[int]] = {}
    ignored: list[str] = []
    for token in (part.strip() for part in value.split(",") if part.strip()):
        card, _, tile = token.partition(".")
        known = _is_number(card) and int(card) < len(devices)
        if known and not tile:
            wanted.setdefault(int(card), set()).update(range(devices[int(card)].tiles))
        elif known and _is_number(tile) and int(tile) < devices[int(card)].tiles:
            wanted.setdefault(int(card), set()).add(int(tile))
        else:
            ignored.append(token)
    entries = tuple(_part_of(devices[number], number, tiles) for number, tiles in sorted(wanted.items()))
    return entries, [t for t in ignored if t != HIDDEN]


def _part_of(card: Device, number: int, tiles: set[int]) -> Entry:
    if len(tiles) == card.tiles:
        return Entry(card, str(number))
    token = ",".join(f"{number}.{tile}" for tile in sorted(tiles))
    memory = None if card.memory_mib is None else card.memory_mib * len(tiles) // card.tiles
    uuid = f"{card.uuid}/{'+'.join(map(str, sorted(tiles)))}"
    return Entry(
        dataclasses.replace(card, uuid=uuid, memory_mib=memory, used_mib=None, tiles=len(tiles)), token
    )


def _tiles(card: Device) -> Iterator[Device]:
    if card.tiles == 1:
        yield card
        return
    memory = None if card.memory_mib is None else card.memory_mib // card.tiles
    for tile in range(card.tiles):
        yield dataclasses.replace(card, uuid=f"{card.uuid}/{tile}", memory_mib=memory, used_mib=None, tiles=1)


def _in_order(value: str, devices: Sequence[Device], find: Find) -> tuple[tuple[Entry, ...], str]:
    """Return the named devices in the caller's order, and what ended the list early."""
    entries: list[Entry] = []
    for token in split(value):
        device = find(token, devices)
        if device is None:
            return tuple(entries), f"{token!r} is no device here, and ends the list"
        if any(entry.device.uuid == device.uuid for entry in entries):
            return (), f"{token!r} names a device twice, which counts as an empty list"
        entries.append(Entry(device, token))
    return tuple(entries), ""


def _cuda_device(token: str, devices: Sequence[Device]) -> Device | None:
    if _is_number(token):
        return next((device for device in devices if device.index == int(token)), None)
    matches = [d for d in devices if d.uuid.lower().startswith(token.lower())]
    if not matches:  # a card under MIG is named by its own UUID, and gives its first instance
        matches = [d for d in devices if d.parent and d.parent.lower().startswith(token.lower())][:1]
    return matches[0] if len(matches) == 1 and token.startswith(("GPU-", "MIG-")) else None


def _hip_device(token: str, devices: Sequence[Device]) -> Device | None:
    # positions, not indexes: what ROCR left is numbered from 0
    if _is_number(token):
        return devices[int(token)] if int(token) < len(devices) else None
    return next((device for device in devices if device.uuid.lower() == token.lower()), None)


def _numbered(token: str, devices: Sequence[Device]) -> Device | None:
    return devices[int(token)] if _is_number(token) and int(token) < len(devices) else None


def _is_number(token: str) -> bool:
    return token.isascii() and token.isdigit()
