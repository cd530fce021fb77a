"""The other pipeline files of a repository: the step keys they have, and which of their steps run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omni_ci.planning import Plan
from omni_ci.rendering.waiting import Running
from omni_ci.repository.places import Tree
from omni_ci.selection.beside import yaml_files
from omni_ci.yaml.model import Group
from omni_ci.yaml.reading import read
from omni_ci.yaml.waits import keys_of
from omni_hardware.errors import OmniError

_KEY_NAMES = ("key", "id", "identifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The *keys* that other files have, and those *pipelines* of them that a step waits for, judged."""

    keys: frozenset[str] = frozenset()
    pipelines: tuple[Running, ...] = ()
    notices: tuple[str, ...] = ()


def neighbours_of(plan: Plan, *, known_keys: Iterable[str] = ()) -> Neighbours:
    """Return what the pipelines of *plan* wait for in other files; nothing is read where they wait for nothing.

    A file that cannot be planned counts with all of its keys, and a notice says so.
    """
    own = {pipeline.name for pipeline in plan.pipelines}
    known = {*known_keys, *(key for pipeline in plan.pipelines for key in _keys(pipeline.steps))}
    wanted = {key for pipeline in plan.pipelines for key in _foreign(pipeline.steps)}
    if not wanted - known:
        return Neighbours()
    keys = {name: found for name, found in keys_by_file(plan.root).items() if name not in own}
    judged: dict[str, Running] = {}
    tried: set[str] = set()
    notices: list[str] = []
    while name := next((one for one in keys if one not in tried and keys[one] & (wanted - known)), None):
        tried.add(name)
        try:
            other = plan.again(name)
        except OmniError as error:
            notices.append(f"{name} cannot be planned, so all of its steps are taken to run: {error}")
            continue
        judged[name] = (other.pipelines[0], other.selection.running(name))
        wanted |= _foreign(other.pipelines[0].steps)
    return Neighbours(
        keys=frozenset(key for found in keys.values() for key in found),
        pipelines=tuple(judged.values()),
        notices=tuple(notices),
    )


def keys_by_file(root: Path) -> Mapping[str, frozenset[str]]:
    """Return the step keys of every YAML file under .buildkite/ that holds steps, whatever else it may hold."""
    tree = Tree(root)
    found = {name: frozenset(step_keys(read(tree.read(name) or "", name)[0])) for name in yaml_files(tree)}
    return {name: keys for name, keys in found.items() if keys}


def step_keys(document: Any) -> Iterator[str]:
    """Yield the keys of the steps and groups in *document*, a pipeline as plain values."""
    steps = document.get("steps") if isinstance(document, dict) else document
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            yield from (step[name] for name in _KEY_NAMES if isinstance(step.get(name), str))
            yield from step_keys({"steps": step.get("steps")})


def _foreign(items: Iterable[Any]) -> set[str]:
    """Return the keys these steps wait for and do not have."""
    return set(keys_of(*(part.depends_on for part in _parts(items)))) - _keys(items)


def _keys(items: Iterable[Any]) -> set[str | None]:
    return {part.key for part in _parts(items)}


def _parts(items: Iterable[Any]) -> list[Any]:
    return [part for item in items for part in ((item, *item.steps) if isinstance(item, Group) else (item,))]
