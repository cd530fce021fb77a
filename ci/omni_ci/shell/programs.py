"""Whether a command runs a program that stands among its words, or only names it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

# Programs whose words are text, files, packages or names.
_ONLY_NAME = re.compile(
    r"echo|printf|cp|mv|rm|rmdir|ls|cat|e?grep|rg|sed|awk|head|tail|wc|diff|which|whereis|type|hash|test|\[\[?|pkill|"
    r"pgrep|killall|mkdir|touch|tee|chmod|chown|ln|tar|cd|pushd|export|declare|local|readonly|typeset|unset|alias|"
    r"unalias|source|\.|buildkite-agent"
)
# Programs that run another one behind one of these words only.
_RUN_AFTER: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "find": frozenset(["-exec", "-execdir", "-ok", "-okdir"]),
        "git": frozenset(["run", "foreach", "--exec", "-x"]),
        **dict.fromkeys(("docker", "podman", "nerdctl", "kubectl"), frozenset(["run", "exec"])),
    }
)
_PACKAGES = re.compile(
    r"uv|pipx|poetry|pdm|pixi|hatch|conda|mamba|micromamba|apt|apt-get|apk|dnf|yum|brew|npm"
)
_OF_PACKAGES = frozenset(
    [
        "install",
        "add",
        "uninstall",
        "remove",
        "update",
        "upgrade",
        "download",
        "sync",
        "lock",
        "search",
        "show",
    ]
)
_PIP = re.compile(r"pip[\d.]*")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launcher:
    """How many words of its own stand before the program, and which options take the next word."""

    own: int = 0
    valued: frozenset[str] = frozenset()
    only_names: frozenset[str] = frozenset()


_LAUNCHERS: Mapping[str, _Launcher] = MappingProxyType(
    {
        "timeout": _Launcher(own=1, valued=frozenset(["-k", "-s", "--kill-after", "--signal"])),
        "env": _Launcher(valued=frozenset(["-u", "-C", "--unset", "--chdir"])),
        "nice": _Launcher(valued=frozenset(["-n", "--adjustment"])),
        "ionice": _Launcher(valued=frozenset(["-c", "-n"])),
        "sudo": _Launcher(valued=frozenset(["-u", "-g", "--user", "--group"])),
        "time": _Launcher(valued=frozenset(["-f", "-o"])),
        "stdbuf": _Launcher(valued=frozenset(["-i", "-o", "-e"])),
        "taskset": _Launcher(own=1),
        "xargs": _Launcher(valued=frozenset(["-n", "-P", "-I", "-L", "-d", "-a", "-s"])),
        "exec": _Launcher(valued=frozenset(["-a"])),
        "command": _Launcher(only_names=frozenset(["-v", "-V"])),
        **dict.fromkeys(("nohup", "setsid", "builtin"), _Launcher()),
    }
)


def only_names(before: Sequence[str]) -> bool:
    """Return whether the words *before* a program's name make a command that does not run it.

    What is not known is taken to run it: a run too many is seen, one too few is not.
    """
    names = [posixpath.basename(word) for word in before]
    at, is_named = _program(names)
    if is_named:
        return True
    if at >= len(names):
        return False
    words = _RUN_AFTER.get(names[at])
    if words is not None:
        return not words.intersection(names[at + 1 :])
    return bool(_ONLY_NAME.fullmatch(names[at])) or _is_of_packages(names)


def _program(names: Sequence[str]) -> tuple[int, bool]:
    """Return where the program stands behind the launchers, and whether one of those only asks for its name."""
    at = 0
    while at < len(names) and (launcher := _LAUNCHERS.get(names[at])) is not None:
        at += 1
        while at < len(names) and (names[at].startswith("-") or _ASSIGNED.fullmatch(names[at])):
            if names[at] in launcher.only_names:
                return at, True
            at += 2 if names[at] in launcher.valued else 1
        at += launcher.own
    return at, False


def _is_of_packages(names: Sequence[str]) -> bool:
    """Return whether a package manager stands among *names*, as a program and not as an option's value."""
    for at, name in enumerate(names):
        if at and names[at - 1].startswith("-") and names[at - 1] != "-m":
            continue
        if _PIP.fullmatch(name):
            return True
        if _PACKAGES.fullmatch(name):
            asked = [word for word in names[at + 1 :] if not word.startswith("-")][:2]
            if asked[:1] and asked[0] in _OF_PACKAGES:
                return True
            if asked[:1] in (["tool"], ["self"]) and _OF_PACKAGES.intersection(asked[1:]):
                return True
    return False
