"""The device of a run: asked for by name and given exactly, or the best one present.

The decision is a pure function of what is present; `detect` is the rim that asks torch. Torch is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from omni.errors import DeviceError, InputError, did_you_mean
from omni_hardware.vocabulary import PLATFORMS

AUTO = "auto"
CPU = "cpu"
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Backend:
    """How torch reaches a platform: its device type, and the package that has to be imported for it, if any."""

    torch_type: str
    package: str | None = None


# Best first: the order in which `auto` looks. ROCm builds of torch answer to "cuda" and say so in torch.version.hip.
BACKENDS: dict[str, Backend] = {
    "cuda": Backend("cuda"),
    "rocm": Backend("cuda"),
    "npu": Backend("npu", "torch_npu"),
    "musa": Backend("musa", "torch_musa"),
    "xpu": Backend("xpu"),
    CPU: Backend("cpu"),
}


@dataclass(frozen=True, slots=True)
class Present:
    """What torch sees here: device counts by platform, and how its build describes itself."""

    counts: Mapping[str, int]
    build: str

    def has(self, platform: str) -> bool:
        return platform == CPU or self.counts.get(platform, 0) > 0


@dataclass(frozen=True, slots=True)
class Device:
    """The device a run gets: *platform* as people call it, *torch_type* as torch does, and *because* why this one."""

    platform: str
    torch_type: str
    because: str


def choose_device(asked: str, present: Present) -> Device:
    """Return the device called *asked*, or the best present one for "auto".

    Raises DeviceError where the asked device is not present, InputError for a name that is none.
    """
    name = asked.strip().lower()
    if name == AUTO:
        best = next(platform for platform in BACKENDS if present.has(platform))
        return Device(best, BACKENDS[best].torch_type, f"best of what is present ({_list(present)})")
    if name not in PLATFORMS:
        raise InputError(
            f"device {asked!r} is not known{did_you_mean(name, [AUTO, *PLATFORMS])}; "
            f"valid: {', '.join([AUTO, *PLATFORMS])}. Choose among several cards with the platform's own variable"
        )
    if name not in BACKENDS:
        raise InputError(f"device {asked!r}: the runtime has no support for this platform yet")
    if not present.has(name):
        raise DeviceError(
            f"device {name!r} was asked for and is not present: {present.build} sees {_list(present)}. "
            f"Nothing was loaded; use a machine or a torch build with {name}, or device 'auto'"
        )
    return Device(name, BACKENDS[name].torch_type, "asked for")


def choose_dtype(asked: str, device: Device) -> str:
    """Return the dtype's name: for "auto", float32 on the CPU (bfloat16 is slow there) and bfloat16 elsewhere."""
    if asked == AUTO:
        return "float32" if device.platform == CPU else "bfloat16"
    if asked not in DTYPES:
        raise InputError(f"dtype {asked!r} is not known{did_you_mean(asked, [AUTO, *DTYPES])}")
    return asked


def detect() -> Present:
    """Return what torch sees in this process; a vendor package that fails to import counts as absent."""
    import torch

    hip = getattr(torch.version, "hip", None)
    counts = {name: _count(torch, backend) for name, backend in BACKENDS.items() if name != CPU}
    counts["rocm" if hip is None else "cuda"] = 0
    toolkit = (
        f"HIP {hip}" if hip else f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA or HIP"
    )
    return Present({**counts, CPU: 1}, f"torch {torch.__version__} ({toolkit})")


def release_memory(device: Device) -> None:
    """Give cached memory of the device back to the driver; nothing to do on the CPU."""
    import torch

    module = getattr(torch, device.torch_type, None)
    empty: Callable[[], None] | None = getattr(module, "empty_cache", None)
    if device.platform != CPU and empty is not None:
        empty()


def _count(torch: Any, backend: Backend) -> int:
    try:
        if backend.package is not None:
            if find_spec(backend.package) is None:
                return 0
            import_module(backend.package)
        module = getattr(torch, backend.torch_type)
        return int(module.device_count()) if module.is_available() else 0
    except Exception:  # noqa: BLE001 - a broken vendor package raises anything from OSError to RuntimeError
        return 0


def _list(present: Present) -> str:
    return ", ".join(f"{name} x{present.counts.get(name, 1)}" for name in BACKENDS if present.has(name))
