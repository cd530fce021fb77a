"""A rendered step against what policy lets a pod use and says it must carry."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from omni_ci.hardware.command_env import commands_as_written
from omni_ci.hardware.holders import holders_of
from omni_ci.hardware.host_access import UNJUDGED, Access, accesses_of, keyed
from omni_ci.hardware.plugins import docker_options, plugin_configs, plugin_names, queues_of
from omni_ci.policy import Policy
from omni_hardware.errors import did_you_mean

_MODEL_ID = re.compile(r"""--model-id[= ]+["']?([^\s"']+)""")


# The agent hands plugins their options in variables of these names.
_OPTION = "BUILDKITE_PLUGIN"
# Plugins whose machines are judged, and those that start none.
_JUDGED = frozenset({"docker", "docker-compose", "kubernetes"})
_NO_MACHINE = frozenset({"artifacts", "cache", "docker-login", "ecr", "junit-annotate", "test-collector"})


def check_policy(step: Mapping[str, Any], policy: Policy, *, whose: str = "") -> Iterator[str]:
    """Yield one sentence for each queue, image, way to the host or missing variable that *policy* objects to.

    *whose* ("preset 'l4_1': ") begins what is said of the machines, for what the step asked to give them.
    """
    allow = policy.pods.allow
    used = {
        "queue": (queues_of(step.get("agents")), allow.queues),
        "image": (_images(step), allow.images),
    }
    for what, (names, patterns) in used.items():
        for name in dict.fromkeys(map(str, names)):
            if not _matches(name, patterns):
                yield whose + _refused(what, name, patterns, policy)
    for access in dict.fromkeys(accesses_of(step.get("plugins"))):
        if not _may_access(access, policy):
            yield whose + _closed(access, policy)
    if _limits_machines(policy):
        yield from (f"{whose}{said}" for said in _unseen_options(step, policy))
    for missing in _missing_env(step, policy.pods.required_env):
        yield f"{whose}{missing}, which {policy.where.file} requires (pods.required_env)"
    yield from _unknown_models(step, policy)


def unjudged_plugins(step: Mapping[str, Any], policy: Policy) -> tuple[str, ...]:
    """Return the plugins of *step* that may start machines of their own, of which *policy*'s lists see nothing."""
    if not _limits_machines(policy):
        return ()
    return tuple(name for name in plugin_names(step.get("plugins")) if name not in _JUDGED | _NO_MACHINE)


def _unseen_options(step: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Yield the variables by which a plugin would get an option that does not stand at it."""
    env = step.get("env")
    for name in env if isinstance(env, Mapping) else ():
        if str(name).upper().startswith(_OPTION):
            yield f"env {name} is an option of a plugin, which {policy.where.file} limits; write it at the plugin"


def _limits_machines(policy: Policy) -> bool:
    allow = policy.pods.allow
    return "*" not in allow.images or "*" not in allow.host_paths


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _may_access(access: Access, policy: Policy) -> bool:
    allow = policy.pods.allow
    if access.name and _matches(access.name, allow.host_access):
        return True
    return not _limits_machines(policy) if access.path is None else _may_mount(access.path, allow.host_paths)


def _closed(access: Access, policy: Policy) -> str:
    """Return why *access* is refused, and how it would be allowed."""
    if not access.name:
        return _refused("host path", str(access.path), policy.pods.allow.host_paths, policy)
    listed = f"to allow it all the same, list {access.name} under pods.allow.host_access"
    if access.path is None:
        return (
            f"{access.name} cannot be judged by {policy.where.file}, which limits images and host paths: "
            f"{UNJUDGED[access.name]}; {listed}"
        )
    allowed = ", ".join(policy.pods.allow.host_paths) or "none is"
    return (
        f"{access.name} is as good as the host path {access.path!r}, which is not allowed by {policy.where.file}: "
        f"{allowed}; {listed}"
    )


def _refused(what: str, name: str, patterns: Sequence[str], policy: Policy) -> str:
    return f"{what} {name!r} is not allowed by {policy.where.file}: {', '.join(patterns) or 'none is'}"


def _images(step: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every image a job would run or mount: the step's, docker's, and any in a pod, sidecars included."""
    plugins = step.get("plugins")
    yield from filter(None, [step.get("image")])
    yield from (value for option, value in docker_options(plugins) if option == "image" and value)
    for config in plugin_configs(plugins, "kubernetes"):
        for image in (value for key, value in keyed(config) if key == "image"):
            # an image volume says `image: {reference: …}`
            reference = image.get("reference") if isinstance(image, Mapping) else image
            if reference:
                yield reference


def _may_mount(path: str, patterns: Sequence[str]) -> bool:
    """Match the path that is meant: `..` resolved, and a variable, which could be anything, only by `*` or itself."""
    if not path.startswith("/") or "$" in path:
        return "*" in patterns or path in patterns
    resolved = "/" + posixpath.normpath(path).lstrip("/")
    return _matches(resolved, patterns)


def _unknown_models(step: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Yield the models a step measures that policy does not list; an empty list takes any."""
    known = policy.coverage.model_ids
    for name in dict.fromkeys(name for line in commands_as_written(step) for name in _MODEL_ID.findall(line)):
        if known and "$" not in name and name not in known:
            yield f"--model-id {name} is not in coverage.model_ids of {policy.where.file}{did_you_mean(name, known)}"


def _missing_env(step: Mapping[str, Any], required: Sequence[str]) -> Iterator[str]:
    """Yield where a variable is missing: in what holds a device, of whichever shape."""
    for holder in holders_of(step):
        if holder.kind:
            yield from (f"{holder.title} has no {name}" for name in required if name not in holder.variables)
