"""Huawei Ascend: npu-smi. One device a chip: an A3 card has two, and torch counts them so.

The number of a device is its place in the list, as ASCEND_RT_VISIBLE_DEVICES counts; npu-smi's own NPU ids start
anywhere inside a container. There are no UUIDs: the bus address stands for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes.tools import Run, failure, number, text

PLATFORM = "npu"
_INFO = ("npu-smi", "info")
_MAPPING = ("npu-smi", "info", "-m")
_LIST = ("npu-smi", "info", "-l")
_VERSION = re.compile(r"Version:\s*(\S+)")
_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")
_PAIR = re.compile(r"(\d+)\s*/\s*(\d+)")
_MAPPED = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+|-)\s+(\S.*?)\s*$")


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip as npu-smi names it: NPU id and chip id, with the device that we make of it."""

    npu: int
    chip: int
    device: Device


def probe(run: Run, *, has_nodes: bool) -> Inventory:
    """Return the chips; ProbeError where the driver is there and npu-smi fails (driver upgraded, no permission)."""
    output = run(_INFO)
    if output.is_missing or (not has_nodes and "dcmi module initialize failed" in output.said):
        return Inventory(PLATFORM)
    chips = chips_in(output.out)
    if chips:
        version = _VERSION.search(output.out)
        return Inventory(PLATFORM, version[1] if version else None, devices=tuple(c.device for c in chips))
    # a release whose table we cannot read still answers to the plainer forms
    plain = (mapped_in(run(_MAPPING).out) or listed_in(run(_LIST).out)) if output.code == 0 else ()
    if not plain:
        raise failure(_INFO, output)
    return Inventory(PLATFORM, devices=tuple(_with_memory(run, chip) for chip in plain))


def processes(run: Run, *, has_nodes: bool) -> tuple[ProcessMemory, ...]:  # noqa: ARG001 - every vendor has this signature
    """Return what each process holds on each chip."""
    output = run(_INFO)
    return processes_in(output.out) if output.code == 0 else ()


def chips_in(table: str) -> tuple[Chip, ...]:
    """Return the chips of the table of `npu-smi info`: two lines each, the second with the bus address."""
    found: list[Chip] = []
    head: tuple[int, str] | None = None
    for cells in _cells(table):
        if len(cells) != 3:
            continue
        first = cells[0].split()
        if _BUS.search(cells[1]) and head is not None and first and first[0].isdigit():
            total, used = _memory(cells[2])
            bus = cells[1].strip()
            device = Device(len(found), bus, None, total, used, name=head[1])
            found.append(Chip(head[0], int(first[0]), device))
            head = None
        elif len(first) > 1 and first[0].isdigit():
            head = int(first[0]), text(" ".join(first[1:]))
    return tuple(found)


def processes_in(table: str) -> tuple[ProcessMemory, ...]:
    """Return the rows of the process table of `npu-smi info`."""
    numbers = {(chip.npu, chip.chip): chip.device.index for chip in chips_in(table)}
    found: list[ProcessMemory] = []
    for cells in _cells(table):
        where = cells[0].split()
        if len(cells) != 4 or len(where) != 2 or not all(part.isdigit() for part in where):
            continue
        index, pid, held = numbers.get((int(where[0]), int(where[1]))), number(cells[1]), number(cells[3])
        if index is not None and pid is not None and held is not None:
            found.append(ProcessMemory(pid, index, held))
    return tuple(found)


def mapped_in(listing: str) -> tuple[Chip, ...]:
    """Return the chips of `npu-smi info -m` by their logic id; the management chip ("Mcu") has none."""
    rows = [hit.groups() for line in listing.splitlines() if (hit := _MAPPED.match(line))]
    chips = [(int(npu), int(chip), int(logic), name) for npu, chip, logic, name in rows if logic != "-"]
    return tuple(
        Chip(npu, chip, Device(logic, f"npu-{npu}-{chip}", name=text(name)))
        for npu, chip, logic, name in sorted(chips, key=lambda row: row[2])
    )


def usages_in(listing: str) -> dict[int, tuple[int, int]]:
    """Return (capacity, used) in MiB by chip of `npu-smi info -t usages -i N`; a release without chip ids means 0.

    The chip's id comes last in its block.
    """
    found: dict[int, tuple[int, int]] = {}
    size, rate = None, 0
    for line in listing.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        count = number(value)
        if count is None:
            continue
        if key == "HBM Capacity(MB)" or (key == "DDR Capacity(MB)" and count):
            size, rate = count, 0
        elif size is not None and key in {"HBM Usage Rate(%)", "DDR Usage Rate(%)"}:
            rate = count
        elif key == "Chip ID" and size is not None:
            found[count] = (size, size * rate // 100)
            size, rate = None, 0
    return found if size is None or found else {0: (size, size * rate // 100)}


def listed_in(listing: str) -> tuple[Chip, ...]:
    """Return the chips of `npu-smi info -l`, which names none."""
    npus = re.findall(r"NPU ID\s*:\s*(\d+)\s*\n\s*Chip Count\s*:\s*(\d+)", listing)
    chips = [(int(npu), chip) for npu, count in npus for chip in range(int(count))]
    return tuple(
        Chip(npu, chip, Device(place, f"npu-{npu}-{chip}")) for place, (npu, chip) in enumerate(chips)
    )


def _with_memory(run: Run, chip: Chip) -> Device:
    output = run(("npu-smi", "info", "-t", "usages", "-i", str(chip.npu)))
    total, used = usages_in(output.out).get(chip.chip, (None, None)) if output.code == 0 else (None, None)
    device = chip.device
    return Device(device.index, device.uuid, None, total, used, name=device.name)


def _cells(table: str) -> list[list[str]]:
    lines = [line.strip() for line in table.splitlines()]
    return [line.strip("|").split("|") for line in lines if line.startswith("|")]


def _memory(cell: str) -> tuple[int | None, int | None]:
    """Return total and used of the last pair that is not 0 / 0: HBM where there is some, else DDR."""
    pairs = [(int(total), int(used)) for used, total in _PAIR.findall(cell) if int(total)]
    return pairs[-1] if pairs else (None, None)
