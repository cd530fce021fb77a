"""NVIDIA: NVML through nvidia-ml-py; nvidia-smi where the binding or its library is not found.

No CUDA context is made. MIG instances are devices, the cards they are cut from are not: CUDA cannot use both.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes.tools import Output, ProbeError, Run, failure, number, text

PLATFORM = "cuda"
_MIB = 1024 * 1024
_MIG_NAME = re.compile(r"\bMIG (\S+)$")
_PROFILE_GB = re.compile(r"\.(\d+)gb", re.IGNORECASE)
_CARD_LINE = re.compile(r"GPU (\d+): (.+) \(UUID: ([^)]+)\)")
_MIG_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: ([^)]+)\)")
_FIELDS = "index,uuid,name,memory.total,memory.used,mig.mode.current"
_QUERY = ("nvidia-smi", f"--query-gpu={_FIELDS},driver_version", "--format=csv,noheader,nounits")
_LIST = ("nvidia-smi", "-L")
# Sentences of nvidia-smi that mean that there is no driver, and so no device.
_NO_DRIVER = ("couldn't communicate with the NVIDIA driver", "No devices were found", "NVML Shared Library")


def probe(run: Run, *, has_nodes: bool) -> Inventory:
    """Return the cards and MIG instances; ProbeError where the driver is there and does not answer."""
    nvml = _binding()
    if nvml is not None:
        with _opened(nvml, has_nodes=has_nodes) as state:
            if state == "open":
                driver = _said(nvml.nvmlSystemGetDriverVersion())
                return Inventory(PLATFORM, driver, devices=tuple(_devices(nvml)))
        if state == "no driver":
            return Inventory(PLATFORM)
    return _from_smi(run, has_nodes=has_nodes)


def processes(run: Run, *, has_nodes: bool) -> tuple[ProcessMemory, ...]:
    """Return what each process holds on each card; a process in another pid namespace has the host's number."""
    nvml = _binding()
    if nvml is None:
        return _processes_of_smi(run)
    with _opened(nvml, has_nodes=has_nodes) as state:
        if state == "open":
            return tuple(
                held
                for position, card in _cards(nvml)
                for unit in (_instances(nvml, card) or [card])
                for held in _held(nvml, unit, position)
            )
    return _processes_of_smi(run) if state == "no library" else ()


def cards_in(csv: str) -> tuple[tuple[Device, bool], ...]:
    """Return each card of the query's output and whether MIG is on; ValueError for lines of another shape."""
    found: list[tuple[Device, bool]] = []
    for line in csv.splitlines():
        if not line.strip():
            continue
        index, uuid, name, total, used, mig = (part.strip() for part in line.split(",")[:6])
        device = Device(int(index), uuid, None, number(total), number(used), name=text(name))
        found.append((device, mig == "Enabled"))
    return tuple(found)


def instances_in(listing: str) -> tuple[Device, ...]:
    """Return the MIG instances that `nvidia-smi -L` lists, their memory as their profile names it."""
    found: list[Device] = []
    index, name, card = -1, "", ""
    for line in listing.splitlines():
        if hit := _CARD_LINE.match(line):
            index, name, card = int(hit[1]), hit[2], hit[3]
        elif hit := _MIG_LINE.match(line):
            found.append(
                Device(index, hit[2], None, _profile_mib(hit[1]), None, hit[1], text(name), parent=card)
            )
    return tuple(found)


def _binding() -> Any:
    try:
        return import_module("pynvml")
    except ImportError:
        return None


@contextlib.contextmanager
def _opened(nvml: Any, *, has_nodes: bool) -> Iterator[str]:
    """Yield "open", "no driver" or "no library"; every other failure, then or inside, is a ProbeError."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            yield "no library"
        elif error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED and not has_nodes:
            yield "no driver"
        else:
            raise ProbeError(f"NVML: {error}") from error
        return
    try:
        yield "open"
    except nvml.NVMLError as error:
        raise ProbeError(f"NVML: {error}") from error
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _cards(nvml: Any) -> Iterator[tuple[int, Any]]:
    for position in range(nvml.nvmlDeviceGetCount()):
        try:
            yield position, nvml.nvmlDeviceGetHandleByIndex(position)
        except nvml.NVMLError as error:
            raise ProbeError(f"NVML: card {position}: {error}") from error


def _devices(nvml: Any) -> Iterator[Device]:
    for position, card in _cards(nvml):
        uuid, name = _said(nvml.nvmlDeviceGetUUID(card)), _said(nvml.nvmlDeviceGetName(card))
        if not _has_mig(nvml, card):
            total, used = _memory(nvml, card)
            yield Device(position, uuid, None, total, used, name=name)
            continue
        for instance in _instances(nvml, card):
            total, used = _memory(nvml, instance)
            profile = _MIG_NAME.search(_said(nvml.nvmlDeviceGetName(instance)))
            kind = profile[1] if profile else "instance"
            own = _said(nvml.nvmlDeviceGetUUID(instance))
            yield Device(position, own, None, total, used, kind, name, parent=uuid)


def _has_mig(nvml: Any, card: Any) -> bool:
    with contextlib.suppress(nvml.NVMLError):  # most cards: not supported
        return bool(nvml.nvmlDeviceGetMigMode(card)[0])
    return False


def _instances(nvml: Any, card: Any) -> list[Any]:
    if not _has_mig(nvml, card):
        return []
    found: list[Any] = []
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, position))
        except nvml.NVMLError as error:  # the slots are not filled from the front
            if error.value != nvml.NVML_ERROR_NOT_FOUND:
                raise
    return found


def _memory(nvml: Any, device: Any) -> tuple[int | None, int | None]:
    """Return total and used MiB as nvidia-smi counts them; None on a card without memory of its own."""
    # version 1 of the call counts the driver's reserve as used; an old driver or binding has nothing else
    for version in (getattr(nvml, "nvmlMemory_v2", None), None):
        with contextlib.suppress(nvml.NVMLError, TypeError):
            memory = nvml.nvmlDeviceGetMemoryInfo(device, **({"version": version} if version else {}))
            return int(memory.total) // _MIB, int(memory.used) // _MIB
    return None, None


def _held(nvml: Any, unit: Any, index: int) -> Iterator[ProcessMemory]:
    seen: set[int] = set()
    for query in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        rows: list[Any] = []
        with contextlib.suppress(nvml.NVMLError):  # graphics: not supported on compute cards
            rows = query(unit)
        for row in rows:
            if row.pid not in seen and row.usedGpuMemory is not None:
                seen.add(row.pid)
                yield ProcessMemory(int(row.pid), index, int(row.usedGpuMemory) // _MIB)


def _from_smi(run: Run, *, has_nodes: bool) -> Inventory:
    output = run(_QUERY)
    if output.is_missing and has_nodes:
        raise ProbeError(
            "there are NVIDIA device nodes, and neither the NVML library nor nvidia-smi to ask; "
            "in a container, NVIDIA_DRIVER_CAPABILITIES needs utility beside compute"
        )
    if output.code != 0:
        if _is_no_driver(output, has_nodes=has_nodes):
            return Inventory(PLATFORM)
        raise failure(_QUERY, output)
    try:
        cards = cards_in(output.out)
    except ValueError as error:
        raise failure(_QUERY, output) from error
    devices = [device for device, has_mig in cards if not has_mig]
    if len(devices) < len(cards):
        listing = run(_LIST)
        if listing.code != 0:
            raise failure(_LIST, listing)
        split = {device.index for device, has_mig in cards if has_mig}
        names = {device.index: device.name for device, _ in cards}
        devices += [replace(d, name=names[d.index]) for d in instances_in(listing.out) if d.index in split]
    last = output.out.strip().splitlines()[-1:] or [""]
    driver = text(last[0].split(",")[-1]) if last[0].count(",") > 5 else None
    return Inventory(PLATFORM, driver, devices=tuple(sorted(devices, key=lambda device: device.index)))


def _is_no_driver(output: Output, *, has_nodes: bool) -> bool:
    if output.is_missing:
        return True  # nothing on this machine can say that there is a card
    return not has_nodes and any(sentence in output.said for sentence in _NO_DRIVER)


def _processes_of_smi(run: Run) -> tuple[ProcessMemory, ...]:
    apps = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
    output, cards = run(apps), run(_QUERY)
    if output.code != 0:
        return ()
    try:
        numbers = {device.uuid: device.index for device, _ in cards_in(cards.out)}
    except ValueError as error:
        raise failure(_QUERY, cards) from error
    found: list[ProcessMemory] = []
    for line in output.out.splitlines():
        uuid, pid, used = (*(part.strip() for part in line.split(",")), "", "")[:3]
        mib = number(used)
        if uuid in numbers and pid.isdigit() and mib is not None:
            found.append(ProcessMemory(int(pid), numbers[uuid], mib))
    return tuple(found)


def _profile_mib(profile: str) -> int | None:
    hit = _PROFILE_GB.search(profile)
    return int(hit[1]) * 1000**3 // _MIB if hit else None


def _said(value: object) -> str:
    return text(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
