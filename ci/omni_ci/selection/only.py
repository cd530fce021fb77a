"""Steps asked for by name, and what they wait for, across the pipeline files of one repository."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from omni_ci.selection.facts import Decision, Reason, Rule
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.waits import Node, WaitGraph
from omni_hardware.errors import InputError, did_you_mean

FLAG = "--only"
# What a rerun of single steps sets, a JSON array.
VARIABLE = "VLLM_CI_ONLY_STEP_KEYS"
_NOT_ASKED = Reason(Rule.ONLY, "it was not asked for, and no step that was waits for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSteps:
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
) -> NamedSteps:
    """Return what *keys* decide: the steps of that name and, through `depends_on`, all they wait for.

    A key is a step's key, the name that `plan` shows for a step without one, `file#name`, or a group's key.
    *others* gives the repository's other pipelines; they are asked for only where a key leads out of *pipelines*.
    *by* is how the keys were given. Raises InputError naming every key that no step has.
    """
    graph = WaitGraph(pipelines)
    planned = tuple(graph.steps)
    if _leads_out(graph, keys):
        for pipeline in others():
            graph.add(pipeline)
    asked = _asked(graph, keys, by)
    reasons = {
        one: Reason(Rule.ONLY, f"{waiting!r} waits for it" if waiting else f"asked for with {by}")
        for one, waiting in _reached(graph, asked).items()
    }
    away = [one for one in asked if one not in set(planned)]
    return NamedSteps(
        decided={one: (one in reasons, reasons.get(one, _NOT_ASKED)) for one in planned},
        asked=frozenset(asked),
        notices=tuple(f"{one} was asked for and is not in a file of this plan" for one in away),
    )


def _reached(graph: WaitGraph, start: Iterable[str]) -> dict[str, str | None]:
    """Return the steps reached from *start* through `depends_on`, each with the name of one that waits for it."""
    found: dict[str, str | None] = dict.fromkeys(start)
    todo = deque(found)
    while todo:
        waiting = graph.steps[todo.popleft()]
        for target in (step for key in waiting.keys for step in graph.steps_named(key)):
            if target.id not in found:
                found[target.id] = waiting.ident
                todo.append(target.id)
    return found


def _leads_out(graph: WaitGraph, keys: Sequence[str]) -> bool:
    """Return whether something that *keys* name or lead to is in no file of *graph*."""
    by_name = _by_name(graph)
    if any(key not in by_name for key in keys):
        return True
    reached = _reached(graph, (node.id for key in keys for node in by_name[key]))
    return any(not graph.named(key) for one in reached for key in graph.steps[one].keys)


def _by_name(graph: WaitGraph) -> dict[str, list[Node]]:
    """Return the steps by whatever they can be asked for as: keys, a group's, idents, `file#ident`."""
    found: dict[str, list[Node]] = {}
    for node in graph.steps.values():
        keys = {
            part.key for part in (node.part, node.group.part if node.group else None) if part and part.key
        }
        for name in sorted({*keys, node.ident, node.id}):
            found.setdefault(name, []).append(node)
    return found


def _asked(graph: WaitGraph, keys: Sequence[str], by: str) -> list[str]:
    by_name = _by_name(graph)
    names = [name for name in by_name if "#" not in name]
    if unknown := [key for key in keys if key not in by_name]:
        raise InputError(
            "\n".join(f"{by} {key!r}: no step has this key{did_you_mean(key, names)}" for key in unknown)
        )
    asked: dict[str, None] = {}
    for key in keys:
        steps = [node.id for node in by_name[key] if not node.part.is_gate]
        if not steps:
            raise InputError(
                f"{by} {key!r} names a gate, which runs nothing by itself; name a step behind it"
            )
        asked |= dict.fromkeys(steps)
    return list(asked)
