"""Intel: xpu-smi. The list has no memory and no tiles, so each card is asked once more.

xpu-smi tells no memory in use and no processes in a form that we know of; both stay empty.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes.tools import Output, ProbeError, Run, failure, json_in, number, rows_of, text

PLATFORM = "xpu"
_MIB = 1024 * 1024
_LIST = ("xpu-smi", "discovery", "-j")
_TABLE = ("xpu-smi", "discovery")
_ROW = re.compile(r"^\|\s*(\d*)\s*\|\s*([^:|]+):\s*(.*?)\s*\|$")
_NO_DRIVER = "Level Zero Initialization Error"


def probe(run: Run, *, has_nodes: bool) -> Inventory:
    """Return the cards; ProbeError where Level Zero cannot start although Intel device nodes are there."""
    output = run(_LIST)
    if output.is_missing or _is_none(output, has_nodes=has_nodes):
        return Inventory(PLATFORM)
    if _NO_DRIVER in output.said:
        raise failure(_LIST, output)
    if output.code != 0:  # a release without -j
        table = run(_TABLE)
        if table.code == 0 and (devices := devices_in_table(table.out)):
            return Inventory(PLATFORM, devices=devices)
        raise failure(_LIST, output)
    document = json_in(_LIST, output)
    if not isinstance(document, dict) or "device_list" not in document:
        raise failure(_LIST, output)
    details = [_detail(run, device.index) for device in devices_in(document)]
    devices = tuple(detailed(d, row) for d, row in zip(devices_in(document), details, strict=True))
    return Inventory(PLATFORM, _driver(details), devices=devices)


def processes(run: Run, *, has_nodes: bool) -> tuple[ProcessMemory, ...]:  # noqa: ARG001 - every vendor has this signature
    """Return (): xpu-smi does not tell."""
    return ()


def devices_in(document: Any) -> tuple[Device, ...]:
    """Return the cards of `xpu-smi discovery -j`; its newer releases print null for an empty list."""
    rows = rows_of(document.get("device_list")) if isinstance(document, dict) else []
    found: list[Device] = []
    for row in rows:
        index = number(row.get("device_id"))
        if index is not None and row.get("device_function_type") != "virtual":
            uuid = text(row.get("uuid")) or text(row.get("pci_bdf_address")) or f"xpu-{index}"
            found.append(Device(index, uuid, name=text(row.get("device_name"))))
    return tuple(found)


def devices_in_table(table: str) -> tuple[Device, ...]:
    """Return the cards of the table that `xpu-smi discovery` draws."""
    rows: list[dict[str, str]] = []
    for line in table.splitlines():
        hit = _ROW.match(line.strip())
        if hit is None:
            continue
        if hit[1]:
            rows.append({"device_id": hit[1]})
        if rows:
            rows[-1][hit[2].strip().lower()] = hit[3]
    return devices_in({"device_list": [_renamed(row) for row in rows]})


def detailed(device: Device, detail: Any) -> Device:
    """Return *device* with memory and tiles of `xpu-smi discovery -d N -j`."""
    if not isinstance(detail, dict):
        return device
    size = number(detail.get("memory_physical_size_byte"))
    tiles = number(detail.get("number_of_tiles")) or 1
    return replace(device, memory_mib=None if size is None else size // _MIB, tiles=tiles)


def _detail(run: Run, index: int) -> Any:
    command = ("xpu-smi", "discovery", "-d", str(index), "-j")
    output = run(command)
    try:
        return json_in(command, output) if output.code == 0 else None
    except ProbeError:
        return None


def _renamed(row: dict[str, str]) -> dict[str, str]:
    names = {
        "device name": "device_name",
        "soc uuid": "uuid",
        "uuid": "uuid",
        "pci bdf address": "pci_bdf_address",
        "function type": "device_function_type",
    }
    return {names.get(key, key): value for key, value in row.items()}


def _is_none(output: Output, *, has_nodes: bool) -> bool:
    return "No device discovered" in output.said or (_NO_DRIVER in output.said and not has_nodes)


def _driver(details: list[Any]) -> str | None:
    versions = [text(row.get("driver_version")) for row in details if isinstance(row, dict)]
    return next((version for version in versions if version), None)
