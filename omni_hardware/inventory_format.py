"""inventory.json, schema 1: what may stand in it, every problem of a document at once, and the way back.

Where a document is checked there are no values yet, only rows: `inventory` builds the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omni_hardware.errors import InputError, did_you_mean, strip_controls
from omni_hardware.vocabulary import PLATFORMS, Vocabulary

if TYPE_CHECKING:
    from omni_hardware.inventory import Device, Inventory

SCHEMA = 1
_LEAST_MIB = 1024  # the smallest slice of a card has five times that

# A field's test, and what the message calls it.
_Kind = tuple[Callable[[object], bool], str]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_COUNT: _Kind = (_is_count, "a whole number from 0")
_TEXT: _Kind = (_is_text, "a string")
_NAME: _Kind = (lambda value: _is_text(value) and bool(value), "a string that is not empty")
_COUNT_OR_NULL: _Kind = (lambda value: value is None or _is_count(value), "a whole number from 0, or null")
_TEXT_OR_NULL: _Kind = (lambda value: value is None or _is_text(value), "a string or null")
_ONE_OR_MORE: _Kind = (lambda value: _is_count(value) and value != 0, "a whole number from 1")
_LIST: _Kind = (lambda value: isinstance(value, list), "a list")
_TABLE: _Kind = (lambda value: isinstance(value, dict), "an object")
_TABLE_OR_NULL: _Kind = (lambda value: value is None or isinstance(value, dict), "an object or null")
_TEXTS: _Kind = (
    lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    "an object of strings",
)

_TOP: dict[str, _Kind] = {
    "schema": _COUNT,
    "platform": _TEXT,
    "driver": _TEXT_OR_NULL,
    "error": _TEXT_OR_NULL,
    "devices": _LIST,
    "visible": _TABLE_OR_NULL,
    "processes": _LIST,
    "facts": _TABLE_OR_NULL,
}
_DEVICE: dict[str, _Kind] = {
    "index": _COUNT,
    "uuid": _NAME,
    "sku": _TEXT_OR_NULL,
    "memory_mib": _COUNT_OR_NULL,
    "used_mib": _COUNT_OR_NULL,
    "mig": _TEXT_OR_NULL,
    "name": _TEXT,
    "parent": _TEXT_OR_NULL,
    "tiles": _ONE_OR_MORE,
}
_VISIBLE: dict[str, _Kind] = {"variable": _TEXT_OR_NULL, "value": _TEXT_OR_NULL, "also": _TEXTS}
_PROCESS: dict[str, _Kind] = {"pid": _COUNT, "index": _COUNT, "used_mib": _COUNT}


def checked(document: object, *, where: str, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
    """Return *document* with rows that are safe to build from; InputError has one line a problem, after *where*.

    With a *vocabulary*, the devices must be ones that it has: a person wrote them.
    """
    found = [*_problems(document), *(_unlikely(document, vocabulary) if vocabulary else ())]
    problems = [f"{where}: {problem}" for problem in found]
    if problems:
        raise InputError(strip_controls("\n".join(problems)))
    assert isinstance(document, dict)
    rows = {key: value for key, value in document.items() if key != "schema"}
    if rows.get("visible", ...) is None:
        rows["visible"] = {}
    return rows


def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of *pairs*, for ``json.loads``, which keeps the last of two; InputError names the key."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found


def dump(inventory: Inventory) -> dict[str, Any]:
    """Return the document of an inventory; what has its default and is no part of the core is left out."""
    limit = inventory.visible
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "platform": inventory.platform,
        "driver": inventory.driver,
        "error": inventory.error,
        "devices": [_row(device) for device in inventory.devices],
        "visible": {"variable": limit.variable, "value": limit.value},
    }
    if limit.also:
        document["visible"]["also"] = dict(limit.also)
    if inventory.processes:
        document["processes"] = [
            {"pid": held.pid, "index": held.index, "used_mib": held.used_mib} for held in inventory.processes
        ]
    if inventory.facts is not None:
        document["facts"] = dict(inventory.facts)
    return document


def _row(device: Device) -> dict[str, Any]:
    row = {key: getattr(device, key) for key in _DEVICE}
    extra = {"name": "", "parent": None, "tiles": 1}
    return {key: value for key, value in row.items() if key not in extra or value != extra[key]}


def _problems(document: object) -> Iterator[str]:
    if not isinstance(document, dict):
        yield "an inventory is a JSON object"
        return
    if "schema" not in document:
        yield f"schema: is missing; write {SCHEMA}"
    elif document["schema"] != SCHEMA or isinstance(document["schema"], bool):
        yield f"schema: must be {SCHEMA}, not {document.get('schema')!r}"
    yield from _fields(document, _TOP, "", required=("platform",))
    platform = document.get("platform")
    if isinstance(platform, str) and platform not in PLATFORMS:
        yield f"platform: {platform!r} is no platform{did_you_mean(platform, PLATFORMS)}"
    for key, kinds, required in (
        ("devices", _DEVICE, ("index", "uuid")),
        ("processes", _PROCESS, tuple(_PROCESS)),
    ):
        rows = document.get(key, [])
        for number, row in enumerate(rows if isinstance(rows, list) else []):
            yield from _fields(row, kinds, f"{key}[{number}]", required=required)
    if isinstance(limit := document.get("visible"), dict):
        yield from _fields(limit, _VISIBLE, "visible")
    yield from _together(document)


def _fields(
    row: object, kinds: Mapping[str, _Kind], at: str, *, required: tuple[str, ...] = ()
) -> Iterator[str]:
    if not isinstance(row, dict):
        yield f"{at}: must be an object"
        return
    dot = f"{at}." if at else ""
    for key in row:
        if key not in kinds:
            yield f"{dot}{key}: unknown key{did_you_mean(key, kinds)}"
        elif not kinds[key][0](row[key]) and key != "schema":
            yield f"{dot}{key}: must be {kinds[key][1]}, not {row[key]!r}"
    yield from (f"{dot}{key}: is missing" for key in required if key not in row)


def _unlikely(document: object, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield devices that no test could ask for: misspelt, another platform's, or with memory in another unit."""
    if not isinstance(document, dict) or not isinstance(document.get("devices"), list):
        return
    row = vocabulary.platform(str(document.get("platform")))
    for number, device in enumerate(document["devices"]):
        if not isinstance(device, dict):
            continue
        sku, memory = device.get("sku"), device.get("memory_mib")
        if row is not None and row.visibility and isinstance(sku, str) and sku not in row.skus:
            owner = vocabulary.platform_of(sku)
            hint = f", but of {owner.name}" if owner else did_you_mean(sku, row.skus)
            yield f"devices[{number}].sku: {sku!r} is no SKU of {row.name}{hint}; null is one that nobody knows"
        if isinstance(memory, int) and 0 <= memory < _LEAST_MIB:
            yield f"devices[{number}].memory_mib: {memory} MiB is less than any device has; 80 GiB are 81920 MiB"


def _together(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what only shows when fields are read side by side."""
    rows = document.get("devices")
    devices = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if document.get("platform") == "cpu" and devices:
        yield "devices: the platform cpu has none; name the devices' platform"
    for key, shared in (("uuid", False), ("index", True)):
        first: dict[object, int] = {}
        for number, row in enumerate(devices):
            value = row.get(key)
            if not isinstance(value, str | int) or (shared and row.get("mig")):
                continue
            other = first.setdefault(value, number)
            if other != number:
                yield f"devices[{number}].{key}: {value!r} is already that of devices[{other}]"
