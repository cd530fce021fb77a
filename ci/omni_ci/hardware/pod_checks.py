"""What a pod schema accepts and a cluster, or a reader of the result, does not: S11, and S14 for the cards.

Kubernetes' own schema takes a GPU limit of "one", a request that differs from the limit of a device, and a mount
of a volume nobody declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from omni_ci.hardware.card_counts import check_counts
from omni_ci.hardware.plugins import (
    COMMAND_CONTAINER,
    Pod,
    docker_configs,
    is_device,
    mappings,
    plugin_configs,
    pods_of,
    unread,
    wrong_shapes,
)
from omni_ci.hardware.quantities import value_of

# What the stack adds to every pod itself: a volume, and the containers beside the commands'.
_STACKS_VOLUME = "workspace"
_STACKS_CONTAINERS = ("agent", "checkout", "copy-agent")


def check_pods(step: Mapping[str, Any], *, preset: str | None) -> Iterator[tuple[str, str]]:
    """Yield (code, message) for everything wrong with the pods of *step*, which asked for *preset*."""
    plugins = step.get("plugins")
    for message in unread(plugins):
        yield "S11", message
    for config in plugin_configs(plugins, "kubernetes"):
        more = [str(mount.get("name")) for mount in mappings(config.get("extraVolumeMounts"))]
        for pod in pods_of([{"kubernetes": config}]):
            for message in list(wrong_shapes(pod)) or _pod(pod, mounted_elsewhere=more):
                yield "S11", message
    for config in docker_configs(plugins):
        for message in _docker(config):
            yield "S11", message
    yield from check_counts(step, preset=preset)


def _pod(pod: Pod, *, mounted_elsewhere: Sequence[str]) -> Iterator[str]:
    containers = mappings(pod.spec.get("containers"))
    every = [*containers, *mappings(pod.spec.get("initContainers"))]
    volumes = mappings(pod.spec.get("volumes"))
    yield from _volumes(pod, volumes, every, mounted_elsewhere)
    for name in _twice(one.get("name") for one in every):
        yield f"two containers are called {name!r}"
    if pod.is_patch and COMMAND_CONTAINER not in {one.get("name") for one in containers} and containers:
        yield f"podSpecPatch has no container {COMMAND_CONTAINER!r}, so it would not reach the commands"
    for container in every:
        yield from _container(pod, container, {volume.get("name") for volume in volumes})


def _volumes(
    pod: Pod,
    volumes: list[Mapping[str, Any]],
    containers: list[Mapping[str, Any]],
    mounted_elsewhere: Sequence[str],
) -> Iterator[str]:
    for twice in _twice(volume.get("name") for volume in volumes):
        yield f"two volumes are called {twice!r}"
    mounts = (mount for one in containers for mount in mappings(one.get("volumeMounts")))
    mounted = {*mounted_elsewhere, *(mount.get("name") for mount in mounts)}
    for volume in volumes:
        name, limit = volume.get("name"), (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None:
            yield from _unreadable(limit, f"volume {name!r}: sizeLimit")
        # the controller's own containers may mount what a patch declares
        if not pod.is_patch and name not in mounted:
            yield f"no container mounts volume {name!r}"


def _container(pod: Pod, container: Mapping[str, Any], volumes: set[Any]) -> Iterator[str]:
    name = str(container.get("name", COMMAND_CONTAINER))
    if pod.is_patch and (owned := sorted({"command", "args"} & container.keys())):
        yield f"container {name!r}: a podSpecPatch may not set {owned[0]!r}; it belongs to the stack"
    if pod.is_patch and "name" not in container:
        yield "a container of the podSpecPatch has no name, by which it would be merged"
    if not pod.is_patch and name in _STACKS_CONTAINERS:
        yield f"container {name!r}: the stack adds one of this name itself"
    yield from _resources(name, container.get("resources") or {})
    mounts = mappings(container.get("volumeMounts"))
    for mount in mounts:
        # A patch may mount what the controller declares; a whole podSpec stands alone, but for /workspace.
        if not pod.is_patch and mount.get("name") not in volumes | {_STACKS_VOLUME}:
            yield f"container {name!r} mounts {mount.get('name')!r}, a volume the pod does not declare"
    for path in _twice(mount.get("mountPath") for mount in mounts):
        yield f"container {name!r} mounts two volumes at {path}"
    env = mappings(container.get("env"))
    for variable in _twice(entry.get("name") for entry in env):
        yield f"container {name!r} sets {variable} twice"
    for entry in env:
        if entry.get("value") and entry.get("valueFrom"):
            yield f"container {name!r} gives {entry.get('name')} a value and a valueFrom; keep one"


def _docker(config: Mapping[str, Any]) -> Iterator[str]:
    environment = config.get("environment")
    entries = [str(entry) for entry in environment] if isinstance(environment, list) else []
    for variable in _twice(entry.partition("=")[0] for entry in entries):
        yield f"the docker plugin sets {variable} twice"


def _twice(names: Iterable[Any]) -> list[str]:
    return sorted(name for name, times in Counter(map(str, names)).items() if times > 1)


def _resources(container: str, resources: Mapping[str, Any]) -> Iterator[str]:
    limits, requests = (dict(resources.get(key) or {}) for key in ("limits", "requests"))
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            yield from _unreadable(quantity, f"container {container!r}: {kind} {name}", whole=is_device(name))
    for name, requested in requests.items():
        what = f"container {container!r}"
        if not is_device(name):
            if name in limits and _exceeds(requested, limits[name]):
                yield f"{what}: {name} request {requested} is above its limit {limits[name]}"
        elif name not in limits:
            yield f"{what} requests {name} without a limit, which Kubernetes refuses for devices"
        elif str(limits[name]) != str(requested):
            yield f"{what}: {name} limit {limits[name]} and request {requested} must be equal"


def _exceeds(one: Any, other: Any) -> bool:
    try:
        return value_of(one) > value_of(other)
    except ValueError:
        return False  # said above


def _unreadable(quantity: Any, what: str, *, whole: bool = False) -> Iterator[str]:
    try:
        value = value_of(quantity)
    except ValueError as error:
        yield f"{what}: {error}"
        return
    if whole and value != value.to_integral_value():
        yield f"{what}: {quantity} is no whole number of devices"
