"""What a job's environment needs on each platform: one row a platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from omni_hardware.errors import InputError, did_you_mean

EXPECTED = "VLLM_CI_EXPECTED_GPU_COUNT"
NO_DOCKER = "VLLM_CI_DOCKER_DISABLED"
ALLOW_NO_TESTS = "VLLM_CI_ALLOW_NO_TESTS"

# Set for every job that does not say otherwise.
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "PYTHONFAULTHANDLER": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "300",
        "HF_HUB_ETAG_TIMEOUT": "60",
    }
)
# A variable of the build beats a pod's secret of the same name (omni#7118), so the pod's has a name of its own.
ALIASES: Mapping[str, str] = MappingProxyType({"HF_TOKEN": "VLLM_CI_HF_TOKEN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What a platform's jobs get and must bring.

    defaults: set where the job does not. required: must be set. native: whether the job is a pod that must not start
    containers of its own. has_miopen: whether its libraries keep a database that processes must not share. torch: the expression that counts devices, and build, the one that says torch was built for
    this platform. warning: about a run of pytest without a path.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    native: bool = False
    has_miopen: bool = False
    module: str = "torch"
    build: str = "True"
    count: str = "(torch.accelerator if hasattr(torch, 'accelerator') else torch.cuda).device_count()"
    warning: str = ""


PLATFORMS: Mapping[str, Platform] = MappingProxyType(
    {
        "cuda": Platform(build="torch.version.cuda", count="torch.cuda.device_count()"),
        "rocm": Platform(
            defaults={
                "MIOPEN_DEBUG_CONV_DIRECT": "0",
                "MIOPEN_DEBUG_CONV_GEMM": "0",
                "VLLM_ROCM_USE_AITER": "0",
                "PYTORCH_ROCM_ARCH": "",
                "PYTHONPATH": "..",
            },
            required=(EXPECTED,),
            native=True,
            has_miopen=True,
            build="torch.version.hip",
            count="torch.cuda.device_count()",
        ),
        "npu": Platform(module="torch_npu", count="torch.npu.device_count()"),
        "xpu": Platform(
            required=("VLLM_VERSION", "BUILDKITE_COMMIT"),
            build="hasattr(torch, 'xpu')",
            count="torch.xpu.device_count()",
            warning="collecting a whole repository crashes on XPU (omni#6175); name the folders",
        ),
    }
)
ANY = Platform()


def platform_of(name: str | None) -> Platform:
    """Return the row called *name*, or one that needs nothing for None. Raises InputError for an unknown name."""
    if name is None:
        return ANY
    if name not in PLATFORMS:
        raise InputError(f"--platform: unknown platform {name!r}{did_you_mean(name, PLATFORMS)}")
    return PLATFORMS[name]


def completed(platform: Platform, environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* with the defaults and aliases that it does not set itself."""
    found = {**DEFAULTS, **platform.defaults, **environ}
    return found | {name: environ[source] for name, source in ALIASES.items() if environ.get(source)}
