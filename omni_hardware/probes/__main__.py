"""python -m omni_hardware.probes PLATFORM: ask one vendor in this process, print inventory.json in one line.

What it prints can be kept and given to --omni-inventory elsewhere.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

from omni_hardware.inventory import Device, Inventory
from omni_hardware.probes import named
from omni_hardware.probes.tools import ProbeError, runner
from omni_hardware.probes.vendors import VENDORS, Vendor, vendor_of


def main(arguments: list[str] | None = None) -> int:
    """Print what the vendor's tool says; a failure is the document's "error". Exit 2 for an unknown platform."""
    parser = argparse.ArgumentParser(
        prog="python -m omni_hardware.probes", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("platform", choices=[vendor.platform for vendor in VENDORS])
    parser.add_argument(
        "--processes", action="store_true", help="what each process holds, instead of devices"
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help="where dev/ and proc/ are")
    asked = parser.parse_args(arguments)
    vendor = vendor_of(asked.platform)
    assert vendor is not None
    print(json.dumps(_inventory(vendor, asked.root, processes=asked.processes).to_json()), flush=True)
    return 0


def _inventory(vendor: Vendor, root: Path, *, processes: bool) -> Inventory:
    module, run, has_nodes = vendor.load(), runner(os.environ), vendor.has_nodes(root)
    try:
        if processes:
            return Inventory(vendor.platform, processes=module.processes(run, has_nodes=has_nodes))
        found = named(module.probe(run, has_nodes=has_nodes), os.environ)
        return dataclasses.replace(found, devices=tuple(_told_apart(found.devices)))
    except ProbeError as error:
        return Inventory(vendor.platform, error=str(error))


def _told_apart(devices: tuple[Device, ...]) -> Iterator[Device]:
    """Yield the devices with uuids that differ: partitions of one AMD card may share the card's, and so do some APUs."""
    taken: set[str] = set()
    for device in devices:
        uuid = device.uuid if device.uuid not in taken else f"{device.uuid}/{device.index}"
        taken.add(uuid)
        yield dataclasses.replace(device, uuid=uuid)


if __name__ == "__main__":
    raise SystemExit(main())
