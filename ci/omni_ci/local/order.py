"""What each selected step waits for, as Buildkite would have it: by keys, groups and `wait`, through what is left out."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.waits import Node, WaitGraph
from omni_hardware.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What the steps wait for, by `file#ident`: the other step, and whether its failure is tolerated.

    notices: keys that no file here has.
    """

    by_id: Mapping[str, Mapping[str, bool]]
    notices: tuple[str, ...] = ()


def waits_of(pipelines: Sequence[PipelineFile], selected: Container[str]) -> Waits:
    """Return what the *selected* steps (`file#ident`) wait for among each other.

    Raises InputError naming the steps of a circle, of which none could ever start.
    """
    graph = WaitGraph(pipelines)
    direct = {node: graph.direct(node) for node in graph.steps.values()}
    _refuse_circle(direct)
    by_id = {node.id: _reached(node, direct, selected) for node in direct if node.id in selected}
    return Waits(by_id=by_id, notices=tuple(_unknown(graph)))


def _reached(
    start: Node, direct: Mapping[Node, Mapping[Node, bool]], selected: Container[str]
) -> dict[str, bool]:
    """Return the selected steps that *start* waits for, through those that are left out."""
    found: dict[str, bool] = {}
    seen: set[tuple[Node, bool]] = set()
    todo = list(direct[start].items())
    while todo:
        target, lenient = todo.pop(0)
        if (target, lenient) in seen:
            continue
        seen.add((target, lenient))
        if target.id in selected:
            found[target.id] = found.get(target.id, True) and lenient
        else:
            todo += [(one, lenient or tolerant) for one, tolerant in direct[target].items()]
    return found


def _unknown(graph: WaitGraph) -> Iterator[str]:
    """Yield what to say about the keys that no file here has."""
    waiting: dict[str, list[str]] = {}
    for node in graph.steps.values():
        for key in node.keys:
            if not graph.named(key):
                waiting.setdefault(key, []).append(node.id)
    for key, (first, *others) in waiting.items():
        more = f" and {len(others)} more wait" if others else " waits"
        yield f"{key!r} is in no file here, so it is taken as done: {first}{more} for it"


def _refuse_circle(direct: Mapping[Node, Mapping[Node, bool]]) -> None:
    try:
        TopologicalSorter(direct).prepare()
    except CycleError as error:
        # it names each step before the one that waits for it
        circle = " waits for ".join(node.id for node in reversed(error.args[1]))
        raise InputError(
            f"steps wait for each other in a circle: {circle}; take out one `depends_on`"
        ) from None
