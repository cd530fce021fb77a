"""A rendered step against what policy lets a pod use and says it must carry."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from omni_ci.hardware.command_env import commands_of
from omni_ci.hardware.plugins import (
    Pod,
    docker_configs,
    is_device,
    mappings,
    plugin_configs,
    pods_of,
    queues_of,
    tags_of,
    variables_of,
    wrong_shapes,
)
from omni_ci.policy import Policy
from omni_hardware.errors import did_you_mean

_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # docker's own volumes; all else is a path
_MODEL_ID = re.compile(r"""--model-id[= ]+["']?([^\s"']+)""")


def check_policy(step: Mapping[str, Any], policy: Policy, *, whose: str = "") -> Iterator[str]:
    """Yield one sentence for each queue, image, host path or missing variable that *policy* objects to.

    *whose* ("preset 'l4_1': ") begins what is said of the machines, for what the step asked to give them. The allow
    lists are patterns in which `*` crosses slashes: `registry.example/*` is a whole registry.
    """
    allow = policy.pods.allow
    pods = list(pods_of(step.get("plugins")))
    used = {
        "queue": (queues_of(step.get("agents")), allow.queues),
        "image": (_images(step), allow.images),
    }
    for what, (names, patterns) in used.items():
        for name in dict.fromkeys(map(str, names)):
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                yield whose + _refused(what, name, patterns, policy)
    for path in dict.fromkeys(map(str, _host_paths(step))):
        if not _may_mount(path, allow.host_paths):
            yield whose + _refused("host path", path, allow.host_paths, policy)
    for missing in _missing_env(step, pods, policy.pods.required_env):
        yield f"{whose}{missing}, which {policy.where.file} requires (pods.required_env)"
    yield from _unknown_models(step, policy)


def _refused(what: str, name: str, patterns: Sequence[str], policy: Policy) -> str:
    return f"{what} {name!r} is not allowed by {policy.where.file}: {', '.join(patterns) or 'none is'}"


def _images(step: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every image a job would run or mount: the step's, docker's, and any in a pod, sidecars included."""
    if step.get("image"):
        yield step["image"]
    yield from (config["image"] for config in docker_configs(step.get("plugins")) if config.get("image"))
    for config in plugin_configs(step.get("plugins"), "kubernetes"):
        for image in _under("image", config):
            # an image volume says `image: {reference: …}`
            reference = image.get("reference") if isinstance(image, Mapping) else image
            if reference:
                yield reference


def _host_paths(step: Mapping[str, Any]) -> Iterator[Any]:
    for config in plugin_configs(step.get("plugins"), "kubernetes"):
        for host in _under("hostPath", config):
            yield host.get("path") if isinstance(host, Mapping) else host
    for config in docker_configs(step.get("plugins")):
        volumes = config.get("volumes")
        for volume in volumes if isinstance(volumes, list) else [volumes] if volumes else ():
            source = _source(volume)
            if not _VOLUME.fullmatch(source) and not _in_checkout(source):
                yield source


def _source(volume: Any) -> str:
    if isinstance(volume, Mapping):
        return str(volume.get("source", volume))
    return str(volume).partition(":")[0]


def _in_checkout(path: str) -> bool:
    """Return whether docker would mount a folder of the job's own checkout."""
    return path.startswith(".") and "$" not in path and posixpath.normpath(path).split("/")[0] != ".."


def _may_mount(path: str, patterns: Sequence[str]) -> bool:
    """Match the path that is meant: `..` resolved, and a variable, which could be anything, only by `*` or itself."""
    if not path.startswith("/") or "$" in path:
        return "*" in patterns or path in patterns
    resolved = "/" + posixpath.normpath(path).lstrip("/")
    return any(fnmatchcase(resolved, pattern) for pattern in patterns)


def _under(name: str, value: Any) -> Iterator[Any]:
    """Yield what stands under the key *name*, however deep."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == name:
                yield item
            yield from _under(name, item)
    elif isinstance(value, list):
        for item in value:
            yield from _under(name, item)


def _unknown_models(step: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Yield the models a step measures that policy does not list; an empty list takes any."""
    known = policy.coverage.model_ids
    for name in dict.fromkeys(name for line in commands_of(step) for name in _MODEL_ID.findall(line)):
        if known and "$" not in name and name not in known:
            yield f"--model-id {name} is not in coverage.model_ids of {policy.where.file}{did_you_mean(name, known)}"


def _missing_env(step: Mapping[str, Any], pods: list[Pod], required: tuple[str, ...]) -> Iterator[str]:
    """Yield where a variable is missing: in containers that hold a device, of whichever of the three shapes."""
    env = step.get("env")
    job = env.keys() if isinstance(env, Mapping) else set()
    for pod in pods:
        if any(wrong_shapes(pod)):
            continue  # S11 says so
        for container in mappings(pod.spec.get("containers")):
            limits = (container.get("resources") or {}).get("limits") or {}
            if any(map(is_device, limits)):
                names = {entry.get("name") for entry in mappings(container.get("env"))} | job
                yield from (
                    f"container {container.get('name')!r} has no {name}"
                    for name in required
                    if name not in names
                )
    there = variables_of(step)
    for where in (
        *(f"the pod of resource class {name!r}" for name in tags_of(step.get("agents"), "resource_class")),
        *("the docker container" for _ in docker_configs(step.get("plugins"))),
    ):
        yield from (f"{where} has no {name}" for name in required if name not in there)
