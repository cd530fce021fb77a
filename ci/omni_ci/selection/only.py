"""Steps asked for by name, and what they wait for, across the pipeline files of one repository."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from omni_ci.rendering.waiting import named_by
from omni_ci.selection.facts import Decision, Reason, Rule
from omni_ci.yaml.model import Leaf, PipelineFile, step_id
from omni_hardware.errors import InputError, did_you_mean

FLAG = "--only"
# What a rerun of single steps sets, a JSON array.
VARIABLE = "VLLM_CI_ONLY_STEP_KEYS"
_NOT_ASKED = Reason(Rule.ONLY, "it was not asked for, and no step that was waits for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What is decided about the steps of the planned files, by `file#ident`, and which were asked for by name."""

    decided: Mapping[str, Decision]
    asked: frozenset[str]
    notices: tuple[str, ...] = ()


def keys_from(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys in VLLM_CI_ONLY_STEP_KEYS, () where it is not set. Raises InputError for anything else."""
    text = environ.get(VARIABLE, "")
    if not text.strip():
        return ()
    try:
        keys = json.loads(text)
    except ValueError:
        keys = None
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise InputError(f'{VARIABLE} is {text!r}; it must be a JSON array of step keys, such as ["engine"]')
    return tuple(dict.fromkeys(keys))


def named_steps(
    keys: Sequence[str],
    pipelines: Sequence[PipelineFile],
    others: Callable[[], Iterable[PipelineFile]],
    *,
    by: str = FLAG,
) -> Named:
    """Return what *keys* decide: the steps of that name and, through `depends_on`, all they wait for.

    A key is a step's key, the name that `plan` shows for a step without one, `file#name`, or a group's key.
    *others* gives the repository's other pipelines; they are asked for only where a key leads out of *pipelines*.
    *by* is how the keys were given. Raises InputError naming every key that no step has.
    """
    graph = _Graph()
    for pipeline in pipelines:
        graph.add(pipeline)
    planned = tuple(graph.nodes)
    if graph.leads_out(keys):
        for pipeline in others():
            graph.add(pipeline)
    asked = _asked(graph, keys, by)
    reasons = {
        one: Reason(
            Rule.ONLY, f"{graph.nodes[waiting].ident!r} waits for it" if waiting else f"asked for with {by}"
        )
        for one, waiting in graph.reached(asked).items()
    }
    away = [one for one in asked if one not in set(planned)]
    return Named(
        decided={one: (one in reasons, reasons.get(one, _NOT_ASKED)) for one in planned},
        asked=frozenset(asked),
        notices=tuple(f"{one} was asked for and is not in a file of this plan" for one in away),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A step: how it is called in its file, and the keys it and its group wait for."""

    ident: str
    leaf: Leaf
    waits: tuple[str, ...]


@dataclass(slots=True)
class _Graph:
    """Who waits for whom; steps are known by `file#ident`."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    by_key: dict[str, list[str]] = field(default_factory=dict)
    by_name: dict[str, list[str]] = field(default_factory=dict)

    def add(self, pipeline: PipelineFile) -> None:
        for group, leaf in pipeline.leaves():
            one = step_id(pipeline.name, leaf.ident)
            waits = (*named_by(leaf), *(named_by(group) if group else ()))
            self.nodes[one] = _Node(ident=leaf.ident, leaf=leaf, waits=waits)
            keys = {key for key in (leaf.key, group.key if group else None) if key}
            for key in keys:
                self.by_key.setdefault(key, []).append(one)
            for name in {*keys, leaf.ident, one}:
                self.by_name.setdefault(name, []).append(one)

    def reached(self, start: Iterable[str]) -> dict[str, str | None]:
        """Return the steps reached from *start* through `depends_on`, each with one that waits for it."""
        found: dict[str, str | None] = dict.fromkeys(start)
        todo = deque(found)
        while todo:
            waiting = todo.popleft()
            for target in (one for key in self.nodes[waiting].waits for one in self.by_key.get(key, ())):
                if target not in found:
                    found[target] = waiting
                    todo.append(target)
        return found

    def leads_out(self, keys: Sequence[str]) -> bool:
        """Return whether something that *keys* name or lead to is in no file that was added."""
        if any(key not in self.by_name for key in keys):
            return True
        reached = self.reached(one for key in keys for one in self.by_name[key])
        return any(key not in self.by_key for one in reached for key in self.nodes[one].waits)


def _asked(graph: _Graph, keys: Sequence[str], by: str) -> list[str]:
    names = [name for name in graph.by_name if "#" not in name]
    if unknown := [key for key in keys if key not in graph.by_name]:
        raise InputError(
            "\n".join(f"{by} {key!r}: no step has this key{did_you_mean(key, names)}" for key in unknown)
        )
    asked: dict[str, None] = {}
    for key in keys:
        steps = [one for one in graph.by_name[key] if not graph.nodes[one].leaf.is_gate]
        if not steps:
            raise InputError(
                f"{by} {key!r} names a gate, which runs nothing by itself; name a step behind it"
            )
        asked |= dict.fromkeys(steps)
    return list(asked)
