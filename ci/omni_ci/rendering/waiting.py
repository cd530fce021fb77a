"""What a step waits for once steps are left out: through one that does not run, for what that one waited for.

Buildkite refuses to wait for a step that is not uploaded. Taking such a key out alone would let a step start beside
what it reached through the missing one, so it inherits what that one waited for: in `depends_on`, and by standing
behind a `wait` or `block`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omni_ci.yaml.model import Group, Leaf, PipelineFile, PlainStep
from omni_ci.yaml.waits import Edge, Node, WaitGraph, entries_of, is_tolerant, key_of, keys_of

# A pipeline with the idents of its steps that run; None: all of them.
Running = tuple[PipelineFile, Container[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left of a `depends_on`: its entries, the keys taken out, those inherited, and steps without a key.

    lost: keys that it waited for by its place and cannot any more, since the steps without a key would not be waited for.
    is_set_free: its place holds it no longer, since its preset says what it waits for.
    """

    entries: list[Any]
    gone: tuple[str, ...] = ()
    inherited: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    is_set_free: bool = False
    lost: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return bool(self.gone or self.inherited)


class Waiting:
    """What is left to wait for in the pipelines of one build, the first of which is being rendered."""

    def __init__(self, files: Iterable[Running]) -> None:
        self._graph = WaitGraph()
        self._running: set[Node | None] = set()
        self._is_whole = True
        self._by_place: dict[tuple[Node, bool], Left] = {}
        for pipeline, runs in files:
            for node in self._graph.add(pipeline):
                if runs is None or node.ident in runs:
                    self._running |= {node, node.group}  # a group runs where one of its steps does
                else:
                    self._is_whole = False

    def left(self, part: Group | Leaf) -> Left:
        """Return what *part*, which runs, waits for of its `depends_on`, or instead of its place."""
        node = self._graph.of(part)
        if not node.says and not node.preset_keys:
            return self._left_by_place(node)
        left = self._left_by_key(node)
        if node.says or left.entries or left.unnamed:
            return left
        return replace(self._left_by_place(node), gone=left.gone)  # nothing is left of its preset's

    def _left_by_key(self, node: Node) -> Left:
        own = {one.part.key for one in (node, node.group, *node.inside) if one is not None}
        kept: list[Any] = []
        gone: list[str] = []
        found: dict[str, bool] = {}
        unnamed: dict[Node, None] = {}
        for entry in [*entries_of(node.part.depends_on), *node.preset_keys]:
            targets = self._graph.named(key_of(entry))
            if not targets or any(target in self._running for target in targets):
                kept.append(entry)
            else:
                gone.append(str(key_of(entry)))
            for target in targets:
                self._inherit(target, is_tolerant(entry), found, unnamed)
        # with what its preset names it no longer waits by its place, so that what stands before it is named too
        place = self._graph.by_place(node) if kept or found else []
        self._collect(list(place), None, found, unnamed)
        named = set(keys_of(kept))
        more = {key: lenient for key, lenient in found.items() if key not in named | own}
        kept += _written(more)
        # without a `depends_on` the step waits by its place, which may cover them
        covered = self._reached(self._ahead(node)) if not kept and unnamed else {}
        return Left(
            entries=kept,
            gone=tuple(gone),
            inherited=tuple(more),
            unnamed=tuple(one.title for one in unnamed if one not in covered),
            is_set_free=bool(place),
        )

    def _left_by_place(self, node: Node) -> Left:
        """Return what to wait for by key, where what is left before a gate no longer stands for all that was."""
        if self._is_whole or _is_passed_by(node) or not node.before:
            return Left(entries=[])
        # the steps behind a gate wait for the same, a gate for what is before it
        place = node if node.part.divides else node.before[0][0]
        if (place, node.part.divides) not in self._by_place:
            self._by_place[place, node.part.divides] = self._of_place(node)
        return self._by_place[place, node.part.divides]

    def _of_place(self, node: Node) -> Left:
        found: dict[str, bool] = {}
        unnamed: dict[Node, None] = {}
        self._collect(list(node.before), None, found, unnamed)
        held = {_name(one): lenient for one, lenient in self._reached(self._ahead(node)).items()}
        lost = [
            key for key, lenient in found.items() if held.get(key, True) and not (lenient and key in held)
        ]
        if not lost or unnamed:
            titles = tuple(one.title for one in unnamed) if lost else ()
            return Left(entries=[], lost=tuple(sorted(lost)), unnamed=titles)
        return Left(entries=_written(found), inherited=tuple(found))

    def _inherit(self, start: Node, lenient: bool, found: dict[str, bool], unnamed: dict[Node, None]) -> None:
        if start in self._running:
            self._collect(self._past(start, lenient), start, found, unnamed)
        else:
            self._collect(self._through(start, lenient), None, found, unnamed)

    def _collect(
        self, todo: list[Edge], whole: Node | None, found: dict[str, bool], unnamed: dict[Node, None]
    ) -> None:
        """Collect what *todo* leads to: keys, and whether their failure is tolerated on every way; titles without one.

        *whole* is a group that is waited for as such, so that its own steps are not.
        """
        seen: set[tuple[int, bool]] = set()
        while todo:
            target, lenient = todo.pop(0)
            if isinstance(target, str):
                found[target] = found.get(target, True) and lenient
                continue
            runs = target in self._running
            if (whole is not None and target.group is whole) or (id(target), lenient) in seen:
                continue
            seen.add((id(target), lenient))
            if runs and target.part.key:
                todo += [(target.part.key, lenient), *self._past(target, lenient)]
                continue
            if runs and not target.inside and not target.part.is_wait:
                unnamed[target] = None
            todo += self._through(target, lenient)

    def _ahead(self, node: Node) -> Iterator[Edge]:
        """Yield what runs and holds *node* back by its place, but for waits, which stand for what is before them."""
        gate = node if node.part.divides else _gate_before(node)
        while gate is not None and gate is not node and gate not in self._running:
            gate = _gate_before(gate)
        ahead = [(gate, False)] if gate is not None and gate is not node else []
        while gate is not None and (
            gate is node or not gate.says
        ):  # one that says holds nothing by its place
            ahead += gate.before
            gate = _gate_before(gate)
        yield from (
            (one, lenient) for one, lenient in ahead if one in self._running and not _is_passed_by(one)
        )

    def _reached(self, edges: Iterable[Edge]) -> dict[Node | str, bool]:
        """Return where *edges* lead and all that is waited for there, and whether a failure is tolerated on every way."""
        todo = list(edges)
        found: dict[Node | str, bool] = {}
        while todo:
            node, lenient = todo.pop()
            if found.get(node) in {False, lenient}:
                continue
            found[node] = lenient
            if not isinstance(node, str):
                todo += [
                    (one, lenient) for one in node.inside if one in self._running
                ]  # it stands for no others
                todo += _loosened(self._graph.edges(node), lenient)
        return found

    def _past(self, group: Node, lenient: bool) -> list[Edge]:
        """Return what the missing steps of a group that runs waited for; the group waits for the rest."""
        missing = [one for one in group.inside if one not in self._running]
        return [edge for one in missing for edge in _loosened(self._graph.own_edges(one), lenient)]

    def _through(self, node: Node, lenient: bool) -> list[Edge]:
        return [*((one, lenient) for one in node.inside), *_loosened(self._graph.edges(node), lenient)]


def _written(found: Mapping[str, bool]) -> list[Any]:
    return [{"step": key, "allow_failure": True} if lenient else key for key, lenient in found.items()]


def _name(reached: Node | str) -> str | None:
    return reached if isinstance(reached, str) else reached.part.key


def _gate_before(node: Node) -> Node | None:
    first = node.before[0][0] if node.before else None
    return first if first is not None and first.part.divides else None


def _is_passed_by(node: Node) -> bool:
    """Return whether *node* is a gate that nobody waits for by key, so that what is behind it waits past it."""
    part = node.part
    return (
        isinstance(part, PlainStep)
        and part.is_gate
        and not part.key
        and (part.is_wait or part.body == part.kind)
    )


def _loosened(edges: Iterable[Edge], lenient: bool) -> list[Edge]:
    """Return *edges*, tolerated all of them where the way to them is."""
    return [(target, lenient or tolerant) for target, tolerant in edges]
