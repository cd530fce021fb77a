"""What must hold before the first command of a job: one function a guard, all of them asked, all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omni_ci.errors import GuardError
from omni_ci.runner.counting import Counted, counted, problems
from omni_ci.runner.mounts import Mount, mount_of, mounts
from omni_ci.runner.platforms import ANY, EXPECTED, NO_DOCKER, Platform
from omni_hardware.errors import InfrastructureError

NEEDS_CACHE = "VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE"
_NATIVE = {"AMD_CI_RUNTIME": "native", "NATIVE_CI": "true"}
_IN_MEMORY = {"tmpfs", "ramfs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a guard may look at; mounts and devices are asked for when a guard wants them."""

    environ: Mapping[str, str]
    name: str | None = None
    platform: Platform = ANY
    mounts: Callable[[], list[Mount]] = mounts
    count: Callable[[str | None, Platform, Mapping[str, str]], list[Counted]] = field(default=counted)


def no_docker(at: Situation) -> Iterator[str]:
    """A native pod starts no containers of its own."""
    value = at.environ.get(NO_DOCKER)
    is_native = at.platform.native or any(at.environ.get(name) == word for name, word in _NATIVE.items())
    if value != "1" and (is_native or value is not None):
        found = "is not set" if value is None else f"is {value!r}"
        yield f'{NO_DOCKER} {found}, and must be "1" in a native pod; the preset of the step sets it'


def required_variables(at: Situation) -> Iterator[str]:
    """A platform's jobs cannot do without some variables."""
    for name in at.platform.required:
        if not at.environ.get(name):
            yield f"{name} is not set, which jobs on {at.name} need; set it in the step's `env:` or its preset"


def persistent_cache(at: Situation) -> Iterator[str]:
    """Models are kept on a mount that outlives the job, where the job says so."""
    if at.environ.get(NEEDS_CACHE) != "1":
        return
    home = at.environ.get("HF_HOME")
    if not home:
        yield f"{NEEDS_CACHE}=1, and HF_HOME is not set; set it to the mounted cache"
        return
    try:
        mount = mount_of(home, at.mounts())
    except InfrastructureError as error:
        yield f"{NEEDS_CACHE}=1, and the mounts cannot be told: {error}"
        return
    if mount is None or mount.point in {"", "/"} or not Path(home).is_absolute():
        yield f"{NEEDS_CACHE}=1, and HF_HOME={home} is on no mount of its own; mount the cache there"
    elif mount.kind in _IN_MEMORY:
        yield f"{NEEDS_CACHE}=1, and HF_HOME={home} is on {mount.point}, which is memory ({mount.kind})"


def device_count(at: Situation) -> Iterator[str]:
    """The job sees as many devices as it was given."""
    expected = at.environ.get(EXPECTED)
    if not expected:
        return
    if not (expected.isascii() and expected.isdigit()):
        yield f"{EXPECTED}={expected!r} is no number of devices"
        return
    yield from problems(int(expected), at.count(at.name, at.platform, at.environ))


GUARDS: tuple[Callable[[Situation], Iterator[str]], ...] = (
    no_docker,
    required_variables,
    persistent_cache,
    device_count,
)


def check(at: Situation) -> None:
    """Return where every guard holds. Raises GuardError with a line for each problem."""
    found = [problem for guard in GUARDS for problem in guard(at)]
    if found:
        raise GuardError("\n".join([*found, "No test was run."]))
