"""Moore Threads: mthreads-gmi. Its table is all that is known; no output with running processes was ever seen."""

from __future__ import annotations

import re

from omni_hardware.inventory import Device, Inventory, ProcessMemory
from omni_hardware.probes.tools import Run, failure, text

PLATFORM = "musa"
_GMI = ("mthreads-gmi",)
_DRIVER = re.compile(r"Driver Version:\s*(\S+)")
_ROW = re.compile(r"^(\d+)\s+(\S.*?)\s*\|\s*([0-9A-Fa-f:.]+)\s*\|[^|]*?(\d+)MiB\((\d+)MiB\)")


def probe(run: Run, *, has_nodes: bool) -> Inventory:  # noqa: ARG001 - what the tool says without a driver is not known
    """Return the cards; ProbeError where mthreads-gmi prints no card."""
    output = run(_GMI)
    if output.is_missing:
        return Inventory(PLATFORM)
    devices = devices_in(output.out)
    if not devices:
        raise failure(_GMI, output)
    version = _DRIVER.search(output.out)
    return Inventory(PLATFORM, version[1] if version else None, devices=devices)


def processes(run: Run, *, has_nodes: bool) -> tuple[ProcessMemory, ...]:  # noqa: ARG001
    """Return (): how mthreads-gmi prints a process is not known."""
    return ()


def devices_in(table: str) -> tuple[Device, ...]:
    """Return the cards of the table; the bus address stands for a UUID."""
    rows = [hit.groups() for line in table.splitlines() if (hit := _ROW.match(line.strip()))]
    return tuple(
        Device(int(index), bus, None, int(total), int(used), name=text(name))
        for index, name, bus, used, total in rows
    )
