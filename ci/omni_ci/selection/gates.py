"""Which `wait`, `block` and `input` steps go along: those that still part, or hold back, steps that run."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from omni_ci.yaml.model import Group, Leaf, PipelineFile
from omni_ci.yaml.waits import WaitGraph

BETWEEN = "stands between steps that run"


def judge_gates(pipeline: PipelineFile, running: Container[str]) -> Mapping[str, tuple[bool, str]]:
    """Return for every gate that goes along, by ident, whether it runs beside the *running* idents, and why.

    A gate needs a step that runs behind it in its list, a `wait` one before it too. One that a step that runs
    waits for by key stays: it may be an approval. Where every step runs, the file is uploaded as it was written.
    """
    leaves = [leaf for _, leaf in pipeline.leaves()]
    steps = [leaf for leaf in leaves if not leaf.goes_along]
    gates = [leaf for leaf in leaves if leaf.goes_along]
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
            if not isinstance(item, Group) and item.goes_along:
                found[item.ident] = _judged(item, awaited, before=works[:index], behind=works[index + 1 :])
    return found


def _judged(
    gate: Leaf, awaited: Container[str], *, before: Sequence[bool], behind: Sequence[bool]
) -> tuple[bool, str]:
    if gate.key and gate.key in awaited:
        return True, "a step that runs waits for it"
    if not any(behind):
        return False, "no step that runs stands behind it"
    if gate.is_wait and not any(before):
        return False, "no step that runs stands before it"
    return True, BETWEEN


def _works(item: Group | Leaf, running: Container[str]) -> bool:
    leaves = item.steps if isinstance(item, Group) else (item,)
    return any(leaf.ident in running for leaf in leaves)


def _awaited(pipeline: PipelineFile, running: Container[str]) -> set[str]:
    """Return every key that a step that runs reaches through `depends_on`, its group's included."""
    graph = WaitGraph([pipeline])
    todo = [key for node in graph.steps.values() if node.ident in running for key in node.keys]
    found: set[str] = set()
    while todo:
        key = todo.pop()
        if key not in found:
            found.add(key)
            todo += [more for step in graph.steps_named(key) for more in step.keys]
    return found
