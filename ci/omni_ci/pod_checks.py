"""What a pod schema accepts and a cluster, or a reader of the result, does not: S11 and S14.

Kubernetes' own schema takes a GPU limit of "one", a request that differs from the limit of a device, and a mount
of a volume nobody declared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omni_ci.quantities import value_of

EXPECTED_COUNT = "VLLM_CI_EXPECTED_GPU_COUNT"
PODS = {"podSpec": False, "podSpecPatch": True}  # whether it is a patch
COMMAND_CONTAINER = "container-0"
# A device plugin's resource has a domain; cpu, memory and hugepages have none.
_DEVICE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")
_QUEUE_COUNT = re.compile(r"_(\d+)(?:_queue)?$")
# What a pod's parts must be; `*` is every item of a list. Kubernetes' schema says so too, where it is installed.
_CONTAINER: tuple[tuple[str, type], ...] = (
    ("", list),
    (".*", dict),
    (".*.name", str),
    (".*.resources", dict),
    (".*.resources.limits", dict),
    (".*.resources.requests", dict),
    (".*.volumeMounts", list),
    (".*.volumeMounts.*", dict),
    (".*.volumeMounts.*.name", str),
    (".*.env", list),
    (".*.env.*", dict),
    (".*.env.*.name", str),
)
_SHAPES = (
    *((f"{kind}{path}", shape) for kind in ("containers", "initContainers") for path, shape in _CONTAINER),
    ("volumes", list),
    ("volumes.*", dict),
    ("volumes.*.name", str),
    ("volumes.*.emptyDir", dict),
    ("volumes.*.hostPath", dict),
)
_WORDS: dict[type, str] = {list: "a list", dict: "a mapping", str: "text"}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the kubernetes plugin; *is_patch* when it is merged into the stack's own by container name."""

    spec: Mapping[str, Any]
    is_patch: bool


def pods_of(plugins: Any) -> Iterator[Pod]:
    """Yield the pods of a step's `plugins`."""
    for config in plugin_configs(plugins, "kubernetes"):
        for key, is_patch in PODS.items():
            if isinstance(config.get(key), Mapping):
                yield Pod(config[key], is_patch)


def docker_configs(plugins: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations of the docker plugin in a step's `plugins`."""
    return plugin_configs(plugins, "docker")


def plugin_configs(plugins: Any, wanted: str) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations of the plugin called *wanted*, however it is spelled."""
    for name, config in _configured(plugins):
        if _plugin_name(name) == wanted and isinstance(config, Mapping):
            yield config


def queues_of(agents: Any) -> list[str]:
    """Return the queues that `agents` names: in a mapping, or in a list of `key=value`."""
    if isinstance(agents, Mapping):
        return [str(agents["queue"])] if agents.get("queue") else []
    entries = agents if isinstance(agents, list) else [agents]
    pairs = (str(entry).partition("=") for entry in entries)
    return [value.strip() for key, _, value in pairs if key.strip() == "queue"]


def wrong_shapes(pod: Pod) -> Iterator[str]:
    """Yield a sentence for each part of *pod* that is of another kind than its place needs."""
    for path, kind in _SHAPES:
        for spelled, value in _at(pod.spec, path.split(".")):
            if value is not None and not isinstance(value, kind):
                yield f"{spelled} must be {_WORDS[kind]}, not {value!r}"


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; nothing for what is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def is_device(resource: object) -> bool:
    """Return whether *resource* is counted by a device plugin, such as nvidia.com/gpu."""
    return bool(_DEVICE.fullmatch(str(resource)))


def check_pods(step: Mapping[str, Any], *, preset: str | None) -> Iterator[tuple[str, str]]:
    """Yield (code, message) for everything wrong with the pods of *step*, which asked for *preset*."""
    counts: dict[str, int] = {}
    for message in _unread(step.get("plugins")):
        yield "S11", message
    for pod in pods_of(step.get("plugins")):
        wrong = list(wrong_shapes(pod))
        for message in wrong or _pod(pod):
            yield "S11", message
        counts.update({} if wrong else _counts(pod))
    yield from _one_count(step, counts, preset)


def _unread(plugins: Any) -> Iterator[str]:
    """Yield what would keep a pod from being checked at all."""
    for spelled, config in _configured(plugins):
        name = _plugin_name(spelled)
        if name not in {"kubernetes", "docker"} or config is None:
            continue
        if not isinstance(config, Mapping):
            yield f"the {name} plugin's configuration must be a mapping, not {config!r}"
            continue
        for key in PODS if name == "kubernetes" else ():
            if not isinstance(config.get(key, {}), Mapping):
                yield f"{key} must be a mapping, not {config[key]!r}"


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
    env = step.get("env")
    job = env.get(EXPECTED_COUNT) if isinstance(env, Mapping) else None
    if job is not None:
        named[f"{EXPECTED_COUNT} of the job"] = int(job) if str(job).isdecimal() else -1
    for queue in queues_of(step.get("agents")):
        if named and (suffix := _QUEUE_COUNT.search(queue)):
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


def _plugin_name(spelled: str) -> str:
    """Return a plugin's short name: "docker" of `docker#v5.2.0` and of its repository's address."""
    last = re.split(r"[/:]", spelled.partition("#")[0].rstrip("/"))[-1].lower()
    return last.removesuffix(".git").removesuffix("-buildkite-plugin")


def _at(value: Any, path: Sequence[str], spelled: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what *path* leads to, each with its own path."""
    if not path:
        yield spelled.removeprefix("."), value
    elif path[0] == "*":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _at(item, path[1:], f"{spelled}[{index}]")
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _at(value[path[0]], path[1:], f"{spelled}.{path[0]}")


def _configured(plugins: Any) -> Iterator[tuple[str, Any]]:
    entries = plugins if isinstance(plugins, list) else [plugins]
    for entry in entries:
        if isinstance(entry, Mapping):
            yield from ((str(name), config) for name, config in entry.items())
