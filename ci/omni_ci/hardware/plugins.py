"""The plugins of a step, read however they are spelled: its pods, its docker containers, and its agents' tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PODS = {"podSpec": False, "podSpecPatch": True}  # whether it is a patch
COMMAND_CONTAINER = "container-0"
# A device plugin's resource has a domain; cpu, memory and hugepages have none.
_DEVICE = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")
# How the agent makes a variable of an option's name, and numbers those of a list.
_BETWEEN = re.compile(r"[-_\s]+")
_INDEX = re.compile(r"-\d+$")
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


def docker_options(plugins: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of the docker plugin in a step's `plugins`, each under its name in small letters.

    They reach the plugin as variables (`BUILDKITE_PLUGIN_DOCKER_VOLUMES_0`), so that `Volumes`, `volumes-0` and
    `mount_docker_sock` are read by it too.
    """
    for config in docker_configs(plugins):
        for key, value in config.items():
            yield _INDEX.sub("", _BETWEEN.sub("-", str(key).strip().lower())), value


def plugin_names(plugins: Any) -> tuple[str, ...]:
    """Return the short names of all plugins of a step, each once, also of those without a configuration."""
    return tuple(dict.fromkeys(map(_plugin_name, spelled_names(plugins))))


def spelled_names(plugins: Any) -> tuple[str, ...]:
    """Return the names of all plugins of a step as they are written, versions and addresses included."""
    entries = plugins if isinstance(plugins, list) else [plugins]
    plain = (entry for entry in entries if isinstance(entry, str))
    return (*(name for name, _ in _configured(plugins)), *plain)


def plugin_configs(plugins: Any, wanted: str) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations of the plugin called *wanted*, however it is spelled."""
    for name, config in _configured(plugins):
        if _plugin_name(name) == wanted and isinstance(config, Mapping):
            yield config


def queues_of(agents: Any) -> list[str]:
    """Return the queues that `agents` names: in a mapping, or in a list of `key=value`."""
    return tags_of(agents, "queue")


def tags_of(agents: Any, tag: str) -> list[str]:
    """Return the values `agents` gives *tag*: in a mapping, or in a list of `key=value`."""
    if isinstance(agents, Mapping):
        return [str(agents[tag])] if agents.get(tag) else []
    entries = agents if isinstance(agents, list) else [agents]
    pairs = (str(entry).partition("=") for entry in entries)
    return [value.strip() for key, _, value in pairs if key.strip() == tag]


def variables_of(step: Mapping[str, Any]) -> set[str]:
    """Return the names in the environment of a step's job: its own, its command container's, and docker's."""
    env = step.get("env")
    names = set(map(str, env)) if isinstance(env, Mapping) else set()
    for pod in pods_of(step.get("plugins")):
        for container in mappings(pod.spec.get("containers")):
            if container.get("name", COMMAND_CONTAINER) == COMMAND_CONTAINER:
                names |= {str(entry.get("name")) for entry in mappings(container.get("env"))}
    for config in docker_configs(step.get("plugins")):
        environment = config.get("environment")
        entries = environment if isinstance(environment, list) else ()
        names |= {str(entry).partition("=")[0] for entry in entries}
    return names


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


def unread(plugins: Any) -> Iterator[str]:
    """Yield a sentence for what would keep the pods of *plugins* from being checked at all."""
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
