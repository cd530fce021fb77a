"""Which `wait`, `block` and `input` steps go along: those that still part, or hold back, steps that run."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from omni_ci.rendering.waiting import named_by
from omni_ci.yaml.model import WAITS, Group, Leaf, PipelineFile, PlainStep

BETWEEN = "stands between steps that run"


def judge_gates(
    pipeline: PipelineFile, running: Container[str], is_gate: Callable[[Leaf], bool]
) -> Mapping[str, tuple[bool, str]]:
    """Return for every gate of *pipeline*, by ident, whether it runs beside the *running* idents, and why.

    A gate needs a step that runs behind it in its list, a `wait` one before it too. One that a step that runs
    waits for by key stays: it may be an approval. Where every step runs, the file is uploaded as it was written.
    """
    leaves = [leaf for _, leaf in pipeline.leaves()]
    steps = [leaf for leaf in leaves if not is_gate(leaf)]
    gates = [leaf for leaf in leaves if is_gate(leaf)]
    if steps and all(leaf.ident in running for leaf in steps):
        return {gate.ident: (True, BETWEEN) for gate in gates}
    awaited = _awaited(pipeline, running)
    found: dict[str, tuple[bool, str]] = {}
    lists: list[Sequence[Group | Leaf]] = [
        pipeline.steps,
        *(item.steps for item in pipeline.steps if isinstance(item, Group)),
    ]
    for items in lists:
        works = [_works(item, running) for item in items]
        for index, item in enumerate(items):
            if not isinstance(item, Group) and is_gate(item):
                found[item.ident] = _judged(item, awaited, before=works[:index], behind=works[index + 1 :])
    return found


def _judged(
    gate: Leaf, awaited: Container[str], *, before: Sequence[bool], behind: Sequence[bool]
) -> tuple[bool, str]:
    if gate.key and gate.key in awaited:
        return True, "a step that runs waits for it"
    if not any(behind):
        return False, "no step that runs stands behind it"
    if isinstance(gate, PlainStep) and gate.kind in WAITS and not any(before):
        return False, "no step that runs stands before it"
    return True, BETWEEN


def _works(item: Group | Leaf, running: Container[str]) -> bool:
    leaves = item.steps if isinstance(item, Group) else (item,)
    return any(leaf.ident in running for leaf in leaves)


def _awaited(pipeline: PipelineFile, running: Container[str]) -> set[str]:
    """Return every key that a step that runs reaches through `depends_on`, its group's included."""
    names: dict[str, list[str]] = {}
    todo: list[str] = []
    for group, leaf in pipeline.leaves():
        mine = [*named_by(leaf), *(named_by(group) if group else ())]
        for key in _keys(group, leaf):
            names.setdefault(key, []).extend(mine)
        if leaf.ident in running:
            todo += mine
    found: set[str] = set()
    while todo:
        key = todo.pop()
        if key not in found:
            found.add(key)
            todo += names.get(key, [])
    return found


def _keys(group: Group | None, leaf: Leaf) -> Iterator[str]:
    yield from (part.key for part in (group, leaf) if part is not None and part.key)
