"""The variables that a rendered step sets for its job: in its `env`, in its pods, and in its docker container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from omni_ci.hardware.plugins import docker_configs, mappings, pods_of


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable, the place that sets it ("env", "pod env", "docker environment"), and its value where it is text."""

    place: str
    name: str
    value: str | None


def settings_of(step: Mapping[str, Any]) -> Iterator[Setting]:
    """Yield the variables that *step* sets for its job."""
    env = step.get("env")
    for name, value in (env if isinstance(env, Mapping) else {}).items():
        yield Setting("env", str(name), value if isinstance(value, str) else None)
    for pod in pods_of(step.get("plugins")):
        for kind in ("containers", "initContainers"):
            for container in mappings(pod.spec.get(kind)):
                for entry in mappings(container.get("env")):
                    value = entry.get("value")
                    yield Setting(
                        "pod env", str(entry.get("name")), value if isinstance(value, str) else None
                    )
    for config in docker_configs(step.get("plugins")):
        listed = config.get("environment")
        for written in map(str, listed if isinstance(listed, list) else ()):
            name, has_value, text = written.partition("=")
            yield Setting("docker environment", name, text if has_value else None)
