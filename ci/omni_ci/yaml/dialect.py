"""What a pipeline file must hold beyond the types of its fields, each problem at its own place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omni_ci.yaml import tests_block
from omni_ci.yaml.document import LocatedDict, LocatedList, Problem, Where, flattened
from omni_ci.yaml.kinds import GATES, PLAIN_KINDS
from omni_ci.yaml.model import kind_of
from omni_ci.yaml.shapes import PLAIN_SHAPES, SHAPES, misshapen
from omni_hardware.errors import did_you_mean

# Names other dialects use, and what stands for them here.
ELSEWHERE = {
    "agent_pool": "write `mirror_hardwares: mi300_1`",
    "grade": "write `soft_fail: true` or `soft_fail: false`",
    "working_dir": "write `cd DIR` as the first command",
    "name": "write `label`",
    "id": "write `key`",
    "identifier": "write `key`",
    "type": "write the step as `wait`, `block`, `input` or `trigger`",
}
# https://github.com/buildkite/pipeline-schema: a key is a name, and never one that could be a job's id.
_KEY = re.compile(r"[A-Za-z0-9_\-:${}.,]{1,100}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
EMPTY_ALLOWED = frozenset({"wait", "waiter", "block", "input", "manual", "depends_on"})

_COMMON = frozenset(
    {"key", "label", "if", "depends_on", "allow_dependency_failure", "branches", "source_file_dependencies"}
)
_WAIT = _COMMON | {"wait", "waiter", "continue_on_failure"}
_BLOCK = _COMMON | {"fields", "prompt", "blocked_state", "allowed_teams"}
PLAIN_KEYS = {
    "wait": _WAIT,
    "waiter": _WAIT,
    "block": _BLOCK | {"block"},
    "input": _BLOCK | {"input"},
    "manual": _BLOCK | {"manual"},
    "trigger": _COMMON | {"trigger", "build", "async", "soft_fail", "skip", "if_changed"},
}


def problems(document: LocatedDict) -> Iterator[Problem]:
    """Yield what the fields' types cannot say about a pipeline file read into located values."""
    yield from _empty_values(document, "")
    yield from _agents(document, "")
    yield from misshapen(document, "")
    keys: dict[str, Where] = {}
    for path, step in _steps(document, ""):
        yield from _empty_values(step, path)
        yield from _key(step, path, keys)
        yield from misshapen(step, path, PLAIN_SHAPES if kind_of(step) == "<plain>" else SHAPES)
        if step.get("source_file_dependencies") is not None:
            yield from dependency_problems(step["source_file_dependencies"], step, path)
        if check := _BY_KIND.get(kind_of(step) or ""):
            yield from check(step, path)


def dependency_problems(value: Any, holder: LocatedDict, path: str) -> Iterator[Problem]:
    """Yield what is wrong with a dependency list: nothing in it, or entries that could never match."""
    where = holder.keys_at["source_file_dependencies"]
    leaves = list(flattened(value, where))
    if not leaves:
        what = "is empty; remove it (the step then always runs) or name paths"
        yield Problem(where, f"{path}.source_file_dependencies {what}")
    for entry, at in leaves:
        if problem := entry_problem(entry):
            yield Problem(at, f"{path}.source_file_dependencies: {problem}")


def entry_problem(entry: Any) -> str | None:
    """Return why *entry* could never match a changed file, or None."""
    if not isinstance(entry, str):
        return f"{entry!r} is not text; name a path"
    bare = entry.removeprefix("!")
    if not bare.strip("/ "):
        return f"{entry!r} names nothing"
    if bare != bare.strip():
        return f"{entry!r} has blanks around it"
    if bare.startswith(("/", "./")) or ".." in bare.split("/") or "//" in bare:
        return f"{entry!r} must be a path from the repository's root, such as {_repaired(bare)!r}"
    if any(character in bare for character in "*?["):
        directory = bare.split("*")[0].split("?")[0].split("[")[0].rpartition("/")[0]
        instead = f"write {directory + '/'!r}" if directory else "name files or folders"
        return f"{entry!r} is a pattern, entries are path prefixes: {instead}"
    return None


def advice(key: str, valid: Sequence[str]) -> str:
    """Return what to write instead of the unknown *key*, ready to append to a message."""
    if key in ELSEWHERE and "mirror_hardwares" in valid:
        return f"; {ELSEWHERE[key]}"
    return did_you_mean(key, valid)


def _repaired(path: str) -> str:
    bare = "/".join(part for part in path.split("/") if part not in {"", ".", ".."})
    return (bare or "omni") + ("/" if path.endswith("/") else "")


def _steps(holder: LocatedDict, prefix: str) -> Iterator[tuple[str, LocatedDict]]:
    steps = holder.get("steps")
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, LocatedDict):
            path = f"{prefix}steps[{index}]"
            yield path, step
            if "group" in step and not prefix:
                yield from _steps(step, f"{path}.")


def _empty_values(holder: LocatedDict, path: str) -> Iterator[Problem]:
    for key, value in holder.items():
        if value is None and key not in EMPTY_ALLOWED and not key.startswith("x-"):
            yield Problem(
                holder.keys_at[key], f"{_dotted(path, key)} has no value; give one or remove the key"
            )


def _key(step: LocatedDict, path: str, keys: dict[str, Where]) -> Iterator[Problem]:
    key = step.get("key")
    if not isinstance(key, str):
        return
    where = step.keys_at["key"]
    if not _KEY.fullmatch(key):
        yield Problem(where, f"{path}.key {key!r} must be 1 to 100 of A-Z a-z 0-9 _ - : . ,")
    if _UUID.fullmatch(key):
        yield Problem(where, f"{path}.key {key!r} looks like a UUID, which Buildkite keeps for jobs")
    if key in keys:
        yield Problem(where, f"{path}.key {key!r} is also the key of the step at line {keys[key].line}")
    keys.setdefault(key, where)


def _command_step(step: LocatedDict, path: str) -> Iterator[Problem]:
    if "command" in step and "commands" in step:
        yield Problem(step.keys_at["command"], f"{path} has both command and commands; keep one")
    if not {"command", "commands", "plugins", "tests"} & step.keys():
        kinds = "commands, tests, plugins, wait, block, input, trigger or group"
        yield Problem(step.where, f"{path} does nothing: it has none of {kinds}")
    for name in ("command", "commands"):
        value = step.get(name, "x")
        if value in ("", []) or (isinstance(value, list) and "" in value):
            yield Problem(step.keys_at[name], f"{path}.{name} is empty")
    if "mirror_hardwares" in step:
        yield from _preset(step, path)
    if step.get("tests") is not None:
        yield from tests_block.problems(step, path)
    yield from _agents(step, path)


def _agents(holder: LocatedDict, path: str) -> Iterator[Problem]:
    """Yield the agent tags that ask for nothing: no agent has them, so that the step would wait for ever."""
    agents = holder.get("agents")
    if isinstance(agents, LocatedDict):
        pairs = [(str(tag), value, agents.keys_at[tag]) for tag, value in agents.items()]
    elif isinstance(agents, LocatedList):
        texts = [
            (text, at) for text, at in zip(agents, agents.items_at, strict=True) if isinstance(text, str)
        ]
        pairs = [(tag, value, at) for text, at in texts for tag, _, value in [text.partition("=")]]
    else:
        return
    for tag, value, where in pairs:
        if isinstance(value, str) and not value.strip():
            yield Problem(where, f"{_dotted(path, 'agents')}: {tag} is empty; give it a value or remove it")


def _preset(step: LocatedDict, path: str) -> Iterator[Problem]:
    where, value = step.keys_at["mirror_hardwares"], step["mirror_hardwares"]
    if value is not None and (not isinstance(value, str) or not value.strip()):
        hint = "; a list of mirrors is the older AMD shape" if isinstance(value, list) else ""
        shown = f", not {str(value).lower()}" if isinstance(value, bool | int | float) else ""
        yield Problem(where, f"{path}.mirror_hardwares must name one preset, such as l4_1{shown}{hint}")
    clash = [name for name in ("agents", "plugins", "image") if name in step]
    if clash:
        names = ", ".join(f"{name} (line {step.keys_at[name].line})" for name in clash)
        yield Problem(
            where, f"{path}.mirror_hardwares already gives what {names} would set; keep one of them"
        )


def _plain_step(step: LocatedDict, path: str) -> Iterator[Problem]:
    kind = next(kind for kind in PLAIN_KINDS if kind in step)
    valid = PLAIN_KEYS[kind]
    for key in step.keys() - valid:
        yield Problem(
            step.keys_at[key], f"{path}: a {kind} step has no key {key!r}{did_you_mean(key, valid)}"
        )
    if kind not in GATES and not isinstance(step[kind], str):
        yield Problem(step.keys_at[kind], f"{path}.{kind} must name a pipeline")


def _group(step: LocatedDict, path: str) -> Iterator[Problem]:
    if isinstance(step["group"], str) and not step["group"].strip():
        yield Problem(step.keys_at["group"], f"{path}.group is empty; give it a title")
    for index, inner in enumerate(step["steps"] if isinstance(step.get("steps"), list) else ()):
        if isinstance(inner, LocatedDict) and "group" in inner:
            yield Problem(
                inner.keys_at["group"], f"{path}.steps[{index}]: a group cannot stand inside a group"
            )


_BY_KIND = {"<step>": _command_step, "<plain>": _plain_step, "<group>": _group}


def _dotted(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
