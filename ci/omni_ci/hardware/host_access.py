"""What lets a job reach the machine under it: one table a plugin, from a key to the host path it is as good as."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from omni_ci.hardware.plugins import docker_options, plugin_configs, plugin_names, spelled_names

WHOLE_HOST = "/"
_DOCKER_SOCKET = "/var/run/docker.sock"
_SSH_AGENT = "$SSH_AUTH_SOCK"
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # docker's own volumes; all else is a path
_MOUNT_SOURCE = re.compile(r"(?:^|,)(?:source|src)=([^,]*)")
_OFF = frozenset({"", "0", "false", "no", "none", "off"})
# What is free to have any key, so that a key there says nothing.
_LABELS = frozenset({"annotations", "labels", "matchlabels", "nodeselector", "limits", "requests"})
# With one of these the root of a container is the root of its host; others (IPC_LOCK) are not asked.
CAPABILITIES = frozenset(
    {
        "ALL",
        "BPF",
        "DAC_READ_SEARCH",
        "MKNOD",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_MODULE",
        "SYS_PTRACE",
        "SYS_RAWIO",
    }
)
# Kubernetes' words by the name Go reads them under, whatever their case.
_POD_FLAGS = {
    one.casefold(): one for one in ("privileged", "hostNetwork", "hostPID", "hostIPC", "hostProcess")
}
# What is written elsewhere, where nobody can look from here, and what that is.
UNJUDGED = {
    "uploadVariable": "a variable that is replaced at upload decides what it is",
    "docker-compose": "its images, volumes and privileges are in a file of its own",
    "podTemplate": "the pod is in the cluster",
    "flexVolume": "a driver on the host decides what it mounts",
}
# The words of the policy's `host_access`.
NAMES = (
    *_POD_FLAGS.values(),
    "hostUsers",
    "mount-docker-sock",
    "mount-ssh-agent",
    *UNJUDGED,
    *sorted(CAPABILITIES),
)


@dataclass(frozen=True, slots=True)
class Access:
    """A way to the host. *path*: what it opens, None where that cannot be known; *name*: its word, "" for a mount."""

    path: str | None
    name: str = ""


_AT_UPLOAD = Access(None, "uploadVariable")


def accesses_of(plugins: Any) -> Iterator[Access]:
    """Yield every way to the host that a step's `plugins` open, as it is written."""
    if any("$" in name for name in _what_is_meant(plugins)):
        yield _AT_UPLOAD
    if "docker-compose" in plugin_names(plugins):
        yield Access(None, "docker-compose")
    for option, value in docker_options(plugins):
        if option in _DOCKER:
            yield from _DOCKER[option](value)
    for config in plugin_configs(plugins, "kubernetes"):
        for key, value in keyed(config):
            if key in _POD_FLAGS and _is_on(value):
                yield Access(WHOLE_HOST, _POD_FLAGS[key])
            elif key in _POD:
                yield from _POD[key](value)


def _what_is_meant(plugins: Any) -> Iterator[str]:
    """Yield the names by which plugins and their options are known here, without a plugin's version."""
    yield from (name.partition("#")[0] for name in spelled_names(plugins))
    yield from (option for option, _ in docker_options(plugins))
    for config in plugin_configs(plugins, "kubernetes"):
        yield from (key for key, _ in keyed(config))


def keyed(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key in *value*, however deep and in small letters (Go takes them in any case), and what it holds."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = str(key).casefold()
            yield name, item
            if name not in _LABELS:
                yield from keyed(item)
    elif isinstance(value, list):
        for item in value:
            yield from keyed(item)


def _flag(name: str, path: str = WHOLE_HOST) -> Callable[[Any], Iterator[Access]]:
    return lambda value: iter([Access(path, name)] if _is_on(value) else [])


def _of_the_host(name: str) -> Callable[[Any], Iterator[Access]]:
    def accesses(value: Any) -> Iterator[Access]:
        if "$" in str(value):
            yield _AT_UPLOAD
        elif str(value).casefold() == "host":
            yield Access(WHOLE_HOST, name)

    return accesses


def _volumes(value: Any) -> Iterator[Access]:
    for source in chain.from_iterable(map(_sources, _listed(value))):
        if not _VOLUME.fullmatch(source) and not _is_checkout(source):
            yield Access(source)


def _sources(volume: Any) -> list[str]:
    """Return every host path that docker may take *volume* for: `-v` reads up to a colon, `--mount` its last source."""
    if isinstance(volume, Mapping):
        return [str(volume.get("source", volume))]
    bound, colon, _ = str(volume).partition(":")
    named = [found[1] for found in _MOUNT_SOURCE.finditer(str(volume))]
    return [bound, *named] if colon or not named else named


def _devices(value: Any) -> Iterator[Access]:
    return (Access(source) for device in _listed(value) for source in _sources(device))


def _files(value: Any) -> Iterator[Access]:
    paths = (str(path) for path in _listed(value))
    return (Access(path) for path in paths if path.startswith(("/", "~")) or not _in_checkout(f"./{path}"))


def _added(value: Any) -> Iterator[Access]:
    for one in _listed(value):
        name = str(one).upper().removeprefix("CAP_")
        if "$" in name:
            yield _AT_UPLOAD
        elif name in CAPABILITIES:
            yield Access(WHOLE_HOST, name)


def _capabilities(value: Any) -> Iterator[Access]:
    for key, names in value.items() if isinstance(value, Mapping) else ():
        if str(key).casefold() == "add":
            yield from _added(names)


def _host_path(value: Any) -> Iterator[Access]:
    if not isinstance(value, Mapping):
        yield Access(str(value))
        return
    paths = [str(path) for key, path in value.items() if str(key).casefold() == "path"]
    yield from map(Access, paths or ["?"])


def _unjudged(name: str) -> Callable[[Any], Iterator[Access]]:
    return lambda value: iter([Access(None, name)] if value else [])


def _is_on(value: Any) -> bool:
    return value is not None and str(value).strip().casefold() not in _OFF


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _is_checkout(path: str) -> bool:
    """Return whether docker would mount the job's own checkout: anything in it may be a link that a commit made."""
    return path.startswith(".") and posixpath.normpath(path) == "."


def _in_checkout(path: str) -> bool:
    """Return whether the agent would read a file of the job's own checkout."""
    return path.startswith(".") and "$" not in path and posixpath.normpath(path).split("/")[0] != ".."


# `gpus` gives what the queue stands for, and `mount-buildkite-agent` the program that every job has.
_DOCKER: Mapping[str, Callable[[Any], Iterator[Access]]] = {
    "volumes": _volumes,
    "mounts": _volumes,
    "devices": _devices,
    "env-file": _files,
    "privileged": _flag("privileged"),
    "mount-docker-sock": _flag("mount-docker-sock", _DOCKER_SOCKET),
    "mount-docker-socket": _flag("mount-docker-sock", _DOCKER_SOCKET),
    "mount-ssh-agent": _flag("mount-ssh-agent", _SSH_AGENT),
    "network": _of_the_host("hostNetwork"),
    "pid": _of_the_host("hostPID"),
    "ipc": _of_the_host("hostIPC"),
    "userns": _of_the_host("hostUsers"),
    "add-caps": _added,
    "cap-add": _added,
}
_POD: Mapping[str, Callable[[Any], Iterator[Access]]] = {
    "hostpath": _host_path,
    "capabilities": _capabilities,
    "flexvolume": _unjudged("flexVolume"),
    "podtemplate": _unjudged("podTemplate"),
}
