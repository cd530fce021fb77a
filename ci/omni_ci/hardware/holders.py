"""What holds a step's device and its commands, in whichever of three shapes: a pod, a resource class, docker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omni_ci.hardware.plugins import (
    docker_configs,
    is_device,
    mappings,
    pods_of,
    tags_of,
    variables_of,
    wrong_shapes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One container, as people know it. *kind*: its device's name, or what stands for one; "" where it has none.

    *variables* are those of its job and its own, and *secrets* those of its own whose values are kept elsewhere.
    """

    title: str
    kind: str
    variables: frozenset[str]
    secrets: frozenset[str] = frozenset()
    is_in_pod: bool = False


def holders_of(step: Mapping[str, Any]) -> Iterator[Holder]:
    """Yield the containers of *step*; those of a pod of wrong shape are left to S11, which says so."""
    yield from _in_pods(step)
    there = frozenset(variables_of(step))
    for name in tags_of(step.get("agents"), "resource_class"):
        yield Holder(title=f"the pod of resource class {name!r}", kind="a resource class", variables=there)
    for config in docker_configs(step.get("plugins")):
        environment = config.get("environment")
        handed_on = (
            (str(one) for one in environment if "=" not in str(one)) if isinstance(environment, list) else ()
        )
        yield Holder(
            title="the docker container", kind="docker", variables=there, secrets=frozenset(handed_on)
        )


def _in_pods(step: Mapping[str, Any]) -> Iterator[Holder]:
    env = step.get("env")
    job = frozenset(map(str, env)) if isinstance(env, Mapping) else frozenset()
    for pod in pods_of(step.get("plugins")):
        if any(wrong_shapes(pod)):
            continue
        for container in mappings(pod.spec.get("containers")):
            entries = mappings(container.get("env"))
            limits = (container.get("resources") or {}).get("limits") or {}
            yield Holder(
                title=f"container {container.get('name')!r}",
                kind=next(iter(sorted(filter(is_device, limits))), ""),
                variables=job | {str(entry.get("name")) for entry in entries},
                secrets=frozenset(str(entry.get("name")) for entry in entries if _is_secret(entry)),
                is_in_pod=True,
            )


def _is_secret(entry: Mapping[str, Any]) -> bool:
    source = entry.get("valueFrom")
    return isinstance(source, Mapping) and "secretKeyRef" in source
