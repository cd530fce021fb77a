"""AMD: amd-smi, and rocm-smi where it is missing, fails or hangs.

A device's uuid is "GPU-" and 16 hex digits, as ROCR_VISIBLE_DEVICES takes it, where the tool tells the unique id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes.tools import Output, ProbeError, Run, failure, json_in, number, rows_of, text

PLATFORM = "rocm"
_MIB = 1024 * 1024
_STATIC = ("amd-smi", "static", "--asic", "--vram", "--driver", "--json")
_LIST = ("amd-smi", "list", "--json")
_METRIC = ("amd-smi", "metric", "--mem-usage", "--json")
_PROCESS = ("amd-smi", "process", "--general", "--json")
_ROCM = (
    "rocm-smi",
    "--showid",
    "--showuniqueid",
    "--showproductname",
    "--showmeminfo",
    "vram",
    "--showdriverversion",
    "--json",
)
_NO_DRIVER = ("Drivers not loaded", "Driver not initialized", "No AMD GPUs specified", "not found in modules")


def probe(run: Run, *, has_nodes: bool) -> Inventory:  # noqa: ARG001 - the drivers' sentences are clear without
    """Return the cards; ProbeError where neither tool answers although one of them is there."""
    first = run(_STATIC)
    if _is_no_driver(first):
        return Inventory(PLATFORM)
    if first.code == 0:
        return _from_amd_smi(run, first)
    second = run(_ROCM)
    if second.is_missing and first.is_missing:
        return Inventory(PLATFORM)
    if _is_no_driver(second):
        return Inventory(PLATFORM)
    if second.code != 0:
        raise failure(_STATIC if second.is_missing else _ROCM, first if second.is_missing else second)
    document = json_in(_ROCM, second)
    return Inventory(PLATFORM, _rocm_driver(document), devices=rocm_devices_in(document))


def processes(run: Run, *, has_nodes: bool) -> tuple[ProcessMemory, ...]:  # noqa: ARG001
    """Return what each process holds on each card, by amd-smi; () where only rocm-smi answers."""
    output = run(_PROCESS)
    return processes_in(json_in(_PROCESS, output)) if output.code == 0 else ()


def devices_in(static: Any, listing: Any = None) -> tuple[Device, ...]:
    """Return the cards of `amd-smi static --asic --vram --json`, with the UUIDs of `amd-smi list --json`."""
    uuids = {number(row.get("gpu")): text(row.get("uuid")) for row in rows_of(listing)}
    found: list[Device] = []
    for row in _cards(static):
        index = number(row.get("gpu"))
        if index is None:
            continue
        asic, vram = _table(row, "asic"), _table(row, "vram")
        size = vram.get("size")
        uuid = _unique(asic.get("asic_serial")) or uuids.get(index) or f"gpu-{index}"
        found.append(Device(index, uuid, None, _mib(size), None, name=text(asic.get("market_name"))))
    return tuple(found)


def used_in(metric: Any) -> dict[int, int]:
    """Return MiB in use by card of `amd-smi metric --mem-usage --json`."""
    found = {
        number(row.get("gpu")): _mib(_table(row, "mem_usage").get("used_vram")) for row in _cards(metric)
    }
    return {card: used for card, used in found.items() if card is not None and used is not None}


def processes_in(document: Any) -> tuple[ProcessMemory, ...]:
    """Return the processes of `amd-smi process --json`; a card without any has a sentence where the table stands."""
    found: list[ProcessMemory] = []
    for card in _cards(document):
        index = number(card.get("gpu"))
        for row in rows_of(card.get("process_list")):
            info = row.get("process_info")
            if not isinstance(info, dict) or index is None:
                continue
            pid = number(info.get("pid"))
            held = _mib(info.get("mem_usage") or _table(info, "memory_usage").get("vram_mem"))
            if pid is not None and held is not None:
                found.append(ProcessMemory(pid, index, held))
    return tuple(found)


def rocm_devices_in(document: Any) -> tuple[Device, ...]:
    """Return the cards of `rocm-smi … --json`; releases differ in the case of the keys and in which are there."""
    found: list[Device] = []
    for key, card in document.items() if isinstance(document, dict) else ():
        if not (key.startswith("card") and key[4:].isdigit() and isinstance(card, dict)):
            continue
        row = {str(name).lower(): value for name, value in card.items()}
        names = [text(row.get(name)) for name in ("card series", "device name", "card model")]
        name = next((found for found in names if found and not found.startswith("0x")), "")
        uuid = _unique(row.get("unique id")) or text(row.get("pci bus")) or _guid(row) or key
        total, used = (
            number(row.get(f"vram total {kind}memory (b)".replace("  ", " "))) for kind in ("", "used ")
        )
        found.append(Device(int(key[4:]), uuid, None, _of_bytes(total), _of_bytes(used), name=name))
    return tuple(sorted(found, key=lambda device: device.index))


def _from_amd_smi(run: Run, static: Output) -> Inventory:
    document = json_in(_STATIC, static)
    cards = _cards(document)
    if not cards and document not in ([], {"gpu_data": []}):
        raise ProbeError(f"{' '.join(_STATIC)}: no list of cards in what it printed: {static.out[:200]!r}")
    used = _used(run)
    devices = devices_in(document, _asked(run, _LIST))
    versions = [text(_table(row, "driver").get("version")) for row in cards]
    driver = next((version for version in versions if version), None)
    return Inventory(PLATFORM, driver, devices=tuple(replace(d, used_mib=used.get(d.index)) for d in devices))


def _used(run: Run) -> dict[int, int]:
    return used_in(_asked(run, _METRIC))


def _asked(run: Run, command: tuple[str, ...]) -> Any:
    """Return a document that is good to have; None where the tool does not give it."""
    output = run(command)
    try:
        return json_in(command, output) if output.code == 0 else None
    except ProbeError:
        return None


def _is_no_driver(output: Output) -> bool:
    # rocm-smi says so with exit status 0, and nothing on stdout
    return not output.out.lstrip().startswith(("{", "[")) and any(
        sentence in output.said for sentence in _NO_DRIVER
    )


def _cards(document: Any) -> list[dict[str, Any]]:
    return rows_of(document.get("gpu_data") if isinstance(document, dict) else document)


def _table(row: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = row.get(key)
    return value if isinstance(value, dict) else {}


_UNITS = {"B": 1 / _MIB, "KB": 1 / 1024, "MB": 1.0, "GB": 1024.0}


def _mib(size: Any) -> int | None:
    count = number(size)
    unit = str(size.get("unit", "MB")).upper() if isinstance(size, dict) else "MB"
    return None if count is None or unit not in _UNITS else int(count * _UNITS[unit])


def _of_bytes(count: int | None) -> int | None:
    return None if count is None else count // _MIB


def _unique(value: object) -> str:
    shown = text(value).lower().removeprefix("0x")
    is_hex = bool(shown) and all(digit in "0123456789abcdef" for digit in shown)
    return f"GPU-{shown.zfill(16)}" if is_hex and int(shown, 16) else ""


def _guid(row: Mapping[str, Any]) -> str:
    return f"guid-{guid}" if (guid := text(row.get("guid"))) else ""


def _rocm_driver(document: Any) -> str | None:
    system = _table(document, "system") if isinstance(document, dict) else {}
    return text(system.get("Driver version")) or None
