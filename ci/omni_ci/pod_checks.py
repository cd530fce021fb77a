"""What a pod schema accepts and a cluster, or a reader of the result, does not: S11 and S14.

Kubernetes' own schema takes a GPU limit of "one", a request that differs from the limit of a device, and a mount
of a volume nobody declared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omni_ci.quantities import value_of

EXPECTED_COUNT = "VLLM_CI_EXPECTED_GPU_COUNT"
COMMAND_CONTAINER = "container-0"
# A device plugin's resource has a domain; cpu, memory and hugepages have none.
_DEVICE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")
_QUEUE_COUNT = re.compile(r"_(\d+)(?:_queue)?$")
_DOCKER = re.compile(r"(?:^|/)docker(?:-buildkite-plugin(?:\.git)?)?#")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the kubernetes plugin; *is_patch* when it is merged into the stack's own by container name."""

    spec: Mapping[str, Any]
    is_patch: bool


def pods_of(plugins: Any) -> Iterator[Pod]:
    """Yield the pods of a step's `plugins`."""
    for name, config in _configured(plugins):
        if name.split("#")[0].rsplit("/", 1)[-1] not in {"kubernetes", "kubernetes-buildkite-plugin"}:
            continue
        for key, is_patch in (("podSpec", False), ("podSpecPatch", True)):
            if isinstance(config.get(key), Mapping):
                yield Pod(config[key], is_patch)


def docker_configs(plugins: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations of the docker plugin in a step's `plugins`."""
    return (config for name, config in _configured(plugins) if _DOCKER.search(name))


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; nothing for what is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def is_device(resource: str) -> bool:
    """Return whether *resource* is counted by a device plugin, such as nvidia.com/gpu."""
    return bool(_DEVICE.fullmatch(resource))


def check_pods(step: Mapping[str, Any], *, preset: str | None) -> Iterator[tuple[str, str]]:
    """Yield (code, message) for everything wrong with the pods of *step*, which asked for *preset*."""
    counts: dict[str, int] = {}
    for pod in pods_of(step.get("plugins")):
        for message in _pod(pod):
            yield "S11", message
        counts.update(_counts(pod))
    yield from _one_count(step, counts, preset)


def _pod(pod: Pod) -> Iterator[str]:
    containers = mappings(pod.spec.get("containers"))
    volumes = {volume.get("name") for volume in mappings(pod.spec.get("volumes"))}
    for volume in mappings(pod.spec.get("volumes")):
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None:
            yield from _unreadable(limit, f"volume {volume.get('name')!r}: sizeLimit")
    if pod.is_patch and COMMAND_CONTAINER not in {one.get("name") for one in containers} and containers:
        yield f"podSpecPatch has no container {COMMAND_CONTAINER!r}, so it would not reach the commands"
    for container in containers:
        name = container.get("name", COMMAND_CONTAINER)
        if pod.is_patch and (owned := sorted({"command", "args"} & container.keys())):
            yield f"container {name!r}: a podSpecPatch may not set {owned[0]!r}; it belongs to the stack"
        yield from _resources(str(name), container.get("resources") or {})
        for mount in mappings(container.get("volumeMounts")):
            # A patch may mount what the controller declares; a whole podSpec stands alone, but for /workspace.
            if not pod.is_patch and mount.get("name") not in volumes | {"workspace"}:
                yield f"container {name!r} mounts {mount.get('name')!r}, a volume the pod does not declare"
        names = Counter(str(entry.get("name")) for entry in mappings(container.get("env")))
        for variable in sorted(variable for variable, times in names.items() if times > 1):
            yield f"container {name!r} sets {variable} twice"


def _resources(container: str, resources: Mapping[str, Any]) -> Iterator[str]:
    limits, requests = (dict(resources.get(key) or {}) for key in ("limits", "requests"))
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            yield from _unreadable(quantity, f"container {container!r}: {kind} {name}", whole=is_device(name))
    for name in filter(is_device, requests):
        if name not in limits:
            yield f"container {container!r} requests {name} without a limit, which Kubernetes refuses for devices"
        elif str(limits[name]) != str(requests[name]):
            yield f"container {container!r}: {name} limit {limits[name]} and request {requests[name]} must be equal"


def _unreadable(quantity: Any, what: str, *, whole: bool = False) -> Iterator[str]:
    try:
        value = value_of(quantity)
    except ValueError as error:
        yield f"{what}: {error}"
        return
    if whole and value != value.to_integral_value():
        yield f"{what}: {quantity} is no whole number of devices"


def _counts(pod: Pod) -> dict[str, int]:
    """Return every number of devices the pod names, by where it stands."""
    found: dict[str, int] = {}
    for container in mappings(pod.spec.get("containers")):
        name = container.get("name", COMMAND_CONTAINER)
        limits = (container.get("resources") or {}).get("limits") or {}
        for resource, quantity in limits.items():
            if is_device(resource) and str(quantity).isdecimal():
                found[f"limit {resource} of container {name!r}"] = int(quantity)
        for entry in mappings(container.get("env")):
            if entry.get("name") == EXPECTED_COUNT and str(entry.get("value")).isdecimal():
                found[f"{EXPECTED_COUNT} of container {name!r}"] = int(entry["value"])
    return found


def _one_count(
    step: Mapping[str, Any], counts: Mapping[str, int], preset: str | None
) -> Iterator[tuple[str, str]]:
    """Compare the counts of pod, job, docker, preset name and queue; they must be one number."""
    named = dict(counts)
    named |= _docker_counts(step.get("plugins"))
    job = (step.get("env") or {}).get(EXPECTED_COUNT)
    if job is not None:
        named[f"{EXPECTED_COUNT} of the job"] = int(job) if str(job).isdecimal() else -1
    agents = step.get("agents")
    queue = agents.get("queue") if isinstance(agents, Mapping) else None
    if named and (suffix := _QUEUE_COUNT.search(str(queue or ""))):
        named[f"queue {queue}"] = int(suffix[1])
    if named and preset and (suffix := re.search(r"_(\d+)$", preset)):
        named[f"preset {preset}"] = int(suffix[1])
    if len(set(named.values())) > 1:
        yield "S14", "card counts differ: " + ", ".join(f"{where} {count}" for where, count in named.items())


def _docker_counts(plugins: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for config in docker_configs(plugins):
        environment = config.get("environment")
        for entry in map(str, environment if isinstance(environment, list) else ()):
            name, _, count = entry.partition("=")
            if name == EXPECTED_COUNT and count.isdecimal():
                found[f"{EXPECTED_COUNT} of the docker plugin"] = int(count)
        if str(config.get("gpus")).isdecimal():
            found["gpus of the docker plugin"] = int(config["gpus"])
    return found


def _configured(plugins: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    entries = plugins if isinstance(plugins, list) else [plugins]
    for entry in entries:
        if isinstance(entry, Mapping):
            yield from ((str(name), config) for name, config in entry.items() if isinstance(config, Mapping))
