"""A rendered step against what policy lets a pod use and says it must carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from omni_ci.pod_checks import Pod, docker_configs, is_device, mappings, pods_of
from omni_ci.policy import Policy


def check_policy(step: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Yield one sentence for each queue, image, host path or missing variable that *policy* objects to.

    The allow lists are patterns in which `*` crosses slashes: `registry.example/*` is a whole registry.
    """
    allow = policy.pods.allow
    agents = step.get("agents")
    queue = agents.get("queue") if isinstance(agents, Mapping) else None
    pods = list(pods_of(step.get("plugins")))
    used = {
        "queue": ([queue] if queue else [], allow.queues),
        "image": (list(_images(step, pods)), allow.images),
        "host path": (list(_host_paths(step, pods)), allow.host_paths),
    }
    for what, (names, patterns) in used.items():
        for name in dict.fromkeys(map(str, names)):
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                yield f"{what} {name!r} is not allowed by {policy.where.file}: {', '.join(patterns) or 'none is'}"
    for missing in _missing_env(step, pods, policy.pods.required_env):
        yield f"{missing}, which {policy.where.file} requires (pods.required_env)"


def _images(step: Mapping[str, Any], pods: list[Pod]) -> Iterator[Any]:
    if step.get("image"):
        yield step["image"]
    for pod in pods:
        yield from (
            container["image"] for container in mappings(pod.spec.get("containers")) if container.get("image")
        )
    yield from (config["image"] for config in docker_configs(step.get("plugins")) if config.get("image"))


def _host_paths(step: Mapping[str, Any], pods: list[Pod]) -> Iterator[Any]:
    for pod in pods:
        for volume in mappings(pod.spec.get("volumes")):
            host = volume.get("hostPath")
            if isinstance(host, Mapping):
                yield host.get("path")
    for config in docker_configs(step.get("plugins")):
        volumes = config.get("volumes")
        for volume in volumes if isinstance(volumes, list) else ():
            source = str(volume).partition(":")[0]
            if source.startswith("/"):
                yield source


def _missing_env(step: Mapping[str, Any], pods: list[Pod], required: tuple[str, ...]) -> Iterator[str]:
    """Yield where a variable is missing: in containers that hold a device, and in docker containers."""
    job = (step.get("env") or {}).keys()
    for pod in pods:
        for container in mappings(pod.spec.get("containers")):
            limits = (container.get("resources") or {}).get("limits") or {}
            if any(map(is_device, limits)):
                names = {entry.get("name") for entry in mappings(container.get("env"))} | job
                yield from (
                    f"container {container.get('name')!r} has no {name}"
                    for name in required
                    if name not in names
                )
    for config in docker_configs(step.get("plugins")):
        environment = config.get("environment")
        entries = environment if isinstance(environment, list) else []
        names = {str(entry).partition("=")[0] for entry in entries} | job
        yield from (f"the docker container has no {name}" for name in required if name not in names)
