"""Whether an accelerator's runtime runs in this process already: from then on no variable changes what it sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_NOT_INITIALISED = 3  # CUDA_ERROR_NOT_INITIALIZED of the CUDA driver API


@dataclass(frozen=True, slots=True)
class Runtime:
    """How to ask without starting anything: torch's module, and a driver library with a call that needs no context."""

    module: str
    library: str | None = None
    call: str | None = None


# ROCm's torch answers under "cuda" as well.
RUNTIMES: Mapping[str, Runtime] = MappingProxyType(
    {
        "cuda": Runtime("cuda", "libcuda.so.1", "cuDeviceGetCount"),
        "rocm": Runtime("cuda"),
        "xpu": Runtime("xpu"),
        "npu": Runtime("npu"),
        "musa": Runtime("musa"),
    }
)


def started(platform: str) -> str:
    """Return what runs, in words ("torch.cuda is initialised"), or "" while nothing does; starts nothing itself."""
    runtime = RUNTIMES.get(platform)
    if runtime is None:
        return ""
    module = getattr(sys.modules.get("torch"), runtime.module, None)  # only if somebody imported it
    asked = getattr(module, "is_initialized", None)
    if asked is not None and asked():
        return f"torch.{runtime.module} is initialised"
    if runtime.library and runtime.call and _driver_runs(runtime.library, runtime.call):
        return f"the {platform} driver is initialised"
    return ""


def _driver_runs(library: str, call: str) -> bool:
    if not hasattr(os, "RTLD_NOLOAD"):
        return False
    import ctypes

    try:
        driver = ctypes.CDLL(library, mode=os.RTLD_NOLOAD)  # an error where nobody has loaded it
    except OSError:
        return False
    status: int = getattr(driver, call)(ctypes.byref(ctypes.c_int()))
    return status != _NOT_INITIALISED
