"""What devices are here, asked outside this process: a driver that hangs or crashes takes only the probe along.

Nothing is started on a machine that shows neither a device node nor a vendor's tool.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omni_hardware.errors import InfrastructureError, OmniError
from omni_hardware.inventory import NONE, Inventory, ProcessMemory, load_inventory
from omni_hardware.probes.tools import Output, ProbeError, run
from omni_hardware.probes.vendors import VENDORS, Vendor, vendor_of
from omni_hardware.vocabulary import DEFAULT, PLATFORMS, Vocabulary

__all__ = ["VENDORS", "ProbeError", "Vendor", "probe", "process_memory", "vendor_of"]

AUTO = "auto"
PROBE_LIMIT_S = 90.0  # two tools in turn, each with its own limit, and the interpreter's start
_FILE = "file "


def probe(
    environ: Mapping[str, str],
    *,
    platform: str = AUTO,
    vocabulary: Vocabulary = DEFAULT,
    root: Path = Path("/"),
    limit_s: float = PROBE_LIMIT_S,
) -> Inventory:
    """Return the devices of *platform*, by default of the first that has some, with what limits their use.

    A probe that failed or overran *limit_s* seconds is an inventory with an error, never one without devices; it
    counts only where no other platform has devices. "cpu" where there are none.
    """
    failed: Inventory | None = None
    for vendor in VENDORS:
        if platform not in {AUTO, vendor.platform} or not vendor.worth_asking(environ, root):
            continue
        found = _probed(vendor, environ, root, limit_s)
        if found.devices:
            return named(found, environ, vocabulary=vocabulary)
        if found.error is not None and failed is None:
            failed = found
    return failed or dataclasses.replace(NONE, source="probe")


def process_memory(
    inventory: Inventory,
    environ: Mapping[str, str] | None = None,
    *,
    root: Path = Path("/"),
    limit_s: float = PROBE_LIMIT_S,
) -> tuple[ProcessMemory, ...]:
    """Return what each process holds now, in MiB; an inventory from a file has its file read again.

    environ: where tools are looked for, by default this process's.
    () where the vendor's tool does not tell (xpu-smi, mthreads-gmi, rocm-smi). Raises InfrastructureError where the
    probe fails.
    """
    if inventory.source.startswith(_FILE):
        return load_inventory(inventory.source.removeprefix(_FILE)).processes
    vendor = vendor_of(inventory.platform)
    if vendor is None or not inventory.devices:
        return ()
    document = _asked(vendor, os.environ if environ is None else environ, root, limit_s, "--processes")
    found = Inventory.from_json(document)
    if found.error is not None:
        raise InfrastructureError(f"which process holds {inventory.platform} memory: {found.error}")
    return found.processes


def named(inventory: Inventory, environ: Mapping[str, str], *, vocabulary: Vocabulary = DEFAULT) -> Inventory:
    """Return *inventory* with the vocabulary's SKU for each product, and what *environ* lets a process see of it."""
    from omni_hardware.visibility import visible  # the vendors' rules, for who has devices

    row = vocabulary.platform(inventory.platform)
    devices = tuple(
        dataclasses.replace(device, sku=row.sku_of(device.name) if row else None)
        for device in inventory.devices
    )
    limit = visible(inventory.platform, environ)
    return dataclasses.replace(inventory, devices=devices, visible=limit, source="probe")


def _probed(vendor: Vendor, environ: Mapping[str, str], root: Path, limit_s: float) -> Inventory:
    try:
        return Inventory.from_json(_asked(vendor, environ, root, limit_s), where="the probe's answer")
    except OmniError as error:  # an answer of another shape is no answer either
        return Inventory(vendor.platform, error=str(error), source="probe")


def _asked(vendor: Vendor, environ: Mapping[str, str], root: Path, limit_s: float, *options: str) -> Any:
    """Return the document that the probe process prints; InfrastructureError where it prints none."""
    command = (
        sys.executable,
        "-P",  # a folder of tests may hold a select.py
        "-m",
        "omni_hardware.probes",
        vendor.platform,
        f"--root={root}",
        *options,
    )
    output = run(command, _probe_environment(environ), limit_s=limit_s, leads_group=True)
    last = output.out.strip().splitlines()[-1:] or [""]
    try:
        return json.loads(last[0])
    except (json.JSONDecodeError, RecursionError):
        raise InfrastructureError(f"the {vendor.platform} probe {_ending(output)}") from None


def _ending(output: Output) -> str:
    if output.abandoned:
        return "gave no answer in time and was left alone"
    said = " ".join(output.said.split())[-300:]
    how = f"died of signal {-output.code}" if output.code < 0 else f"ended with status {output.code}"
    return f"{how}: {said}" if said else how


def _probe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* without what hides devices (the inventory is the machine's), able to import this package."""
    from omni_hardware.visibility import variables

    hiding = {name for platform in PLATFORMS for name in variables(platform)}
    kept = {name: value for name, value in environ.items() if name not in hiding}
    here = str(Path(__file__).parents[2])
    return kept | {"PYTHONPATH": ":".join(filter(None, (here, kept.get("PYTHONPATH"))))}
