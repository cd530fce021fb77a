"""The vendors, one row each: what shows that asking is worth it, which module asks, what was ever seen working."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from omni_hardware.inventory import Inventory, ProcessMemory
from omni_hardware.probes.tools import Run


class Probe(Protocol):
    """What a vendor's module offers; both raise ProbeError where the driver is there and does not answer."""

    def probe(self, run: Run, *, has_nodes: bool) -> Inventory: ...
    def processes(self, run: Run, *, has_nodes: bool) -> tuple[ProcessMemory, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor.

    nodes: paths that exist only where the driver drives a device. hints: paths that make asking worth it. proven:
    whether the probe was run on a real device; where it was not, only its parser was, on outputs that others published.
    tells: what it can say beside the devices.
    """

    platform: str
    module: str
    tools: tuple[str, ...]
    nodes: tuple[str, ...]
    hints: tuple[str, ...] = ()
    needs_tool: bool = True
    proven: bool = False
    tells: tuple[str, ...] = ()

    def has_nodes(self, root: Path = Path("/")) -> bool:
        """Return whether there is a device node of this vendor below *root*."""
        return _exists(self.nodes, root)

    def worth_asking(self, environ: Mapping[str, str], root: Path = Path("/")) -> bool:
        """Return whether a probe may find something: no process is started where this is false."""
        if any(shutil.which(tool, path=environ.get("PATH")) for tool in self.tools):
            return True
        return not self.needs_tool and (self.has_nodes(root) or _exists(self.hints, root))

    def load(self) -> Probe:
        """Return the module that asks."""
        return cast("Probe", import_module(f"omni_hardware.probes.{self.module}"))


# In the order in which a platform is looked for.
VENDORS: tuple[Vendor, ...] = (
    Vendor(
        platform="cuda",
        module="nvidia",
        tools=("nvidia-smi",),
        nodes=("dev/nvidia[0-9]*",),
        hints=("dev/nvidiactl", "dev/dxg", "proc/driver/nvidia/version"),
        needs_tool=False,  # NVML is a library
        tells=("memory in use", "memory by process", "MIG"),
        proven=True,  # NVML on one H200, driver 580: benchmarks/results/plugin-h200.json
    ),
    # /dev/kfd is on every desktop with an AMD chip: without a tool it shows nothing
    Vendor(
        platform="rocm",
        module="amd",
        tools=("amd-smi", "rocm-smi"),
        nodes=("dev/kfd",),
        tells=("memory in use", "memory by process (amd-smi)"),
    ),
    Vendor(
        platform="npu",
        module="ascend",
        tools=("npu-smi",),
        nodes=("dev/davinci[0-9]*", "dev/davinci_manager"),
        tells=("memory in use", "memory by process"),
    ),
    Vendor(
        platform="musa",
        module="mthreads",
        tools=("mthreads-gmi",),
        nodes=("dev/mtgpu*",),
        tells=("memory in use",),
    ),
    Vendor(
        platform="xpu",
        module="intel",
        tools=("xpu-smi",),
        nodes=("dev/dri/renderD*",),
        tells=("tiles",),
    ),
)


def vendor_of(platform: str) -> Vendor | None:
    """Return the row of a platform; None for one that nothing probes."""
    return next((vendor for vendor in VENDORS if vendor.platform == platform), None)


def _exists(patterns: Iterable[str], root: Path) -> bool:
    return any(next(root.glob(pattern), None) is not None for pattern in patterns)
