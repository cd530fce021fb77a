"""What a step waits for once steps are left out: through one that does not run, for what that one waited for.

Buildkite refuses to wait for a step that is not uploaded. Taking such a key out alone would let a step start beside
what it reached through the missing one, so it inherits what that one waited for: in `depends_on`, and by standing
behind a `wait` or `block`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_ci.yaml.model import WAITS, Group, Leaf, PipelineFile, PlainStep

# A pipeline with the idents of its steps that run; None: all of them.
Running = tuple[PipelineFile, Container[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left of a `depends_on`: its entries, the keys taken out, those inherited, and steps without a key."""

    entries: list[Any]
    gone: tuple[str, ...] = ()
    inherited: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return bool(self.gone or self.inherited)


@dataclass(eq=False, slots=True, kw_only=True)
class _Node:
    """A step or group. *before* is what it waits for by its place, *inside* the steps of a group."""

    title: str
    key: str | None
    runs: bool
    is_gate: bool = False
    is_wait: bool = False  # a gate that holds nothing back by itself, only what stands before it
    depends_on: Any = None
    is_free: bool = False  # it says what it waits for, so that its place does not
    is_lenient: bool = False
    group: _Node | None = None
    before: list[_Node] = field(default_factory=list)
    inside: list[_Node] = field(default_factory=list)


class Waiting:
    """Who waits for whom in the pipelines of one build, the first of which is being rendered."""

    def __init__(self, files: Iterable[Running]) -> None:
        self._by_key: dict[str, _Node] = {}
        self._by_part: dict[int, _Node] = {}
        for pipeline, runs in files:
            self._read(pipeline, runs)

    def left(self, part: Group | Leaf) -> Left:
        """Return what *part*, which runs, waits for of its `depends_on`."""
        node = self._by_part[id(part)]
        own = {one.key for one in (node, node.group, *node.inside) if one is not None}
        kept: list[Any] = []
        gone: list[str] = []
        found: dict[str, bool] = {}
        unnamed: dict[str, None] = {}
        for entry in _entries(node.depends_on):
            key, lenient = _read_entry(entry)
            target = self._by_key.get(key or "")
            if target is None or target.runs:
                kept.append(entry)
            else:
                gone.append(str(key))
            if target is not None:
                self._inherit(target, lenient, found, unnamed)
        named = {_read_entry(entry)[0] for entry in kept}
        more = {key: lenient for key, lenient in found.items() if key not in named | own}
        kept += [{"step": key, "allow_failure": True} if lenient else key for key, lenient in more.items()]
        # without a `depends_on` the step waits by its place, which covers them
        lost = () if not kept and node.before else tuple(unnamed)
        return Left(entries=kept, gone=tuple(gone), inherited=tuple(more), unnamed=lost)

    def _inherit(self, start: _Node, lenient: bool, found: dict[str, bool], unnamed: dict[str, None]) -> None:
        """Collect what is reached through *start*: keys, and whether their failure is tolerated on every way."""
        todo = self._past(start, lenient) if start.runs else self._through(start, lenient)
        seen: set[tuple[int, bool]] = set()
        while todo:
            target, lenient = todo.pop(0)
            if isinstance(target, str):
                found[target] = found.get(target, True) and lenient
                continue
            inside_start = start.runs and target.group is start  # which is waited for as a whole
            if inside_start or (id(target), lenient) in seen:
                continue
            seen.add((id(target), lenient))
            if target.runs and target.key:
                todo += [(target.key, lenient), *self._past(target, lenient)]
                continue
            if target.runs and not target.inside and not target.is_wait:
                unnamed[target.title] = None
            todo += self._through(target, lenient)

    def _past(self, group: _Node, lenient: bool) -> list[tuple[_Node | str, bool]]:
        """Return what the missing steps of a group that runs waited for; the group waits for the rest."""
        missing = [one for one in group.inside if not one.runs]
        return [edge for one in missing for edge in self._own_edges(one, lenient or one.is_lenient)]

    def _through(self, node: _Node, lenient: bool) -> list[tuple[_Node | str, bool]]:
        return [*((one, lenient) for one in node.inside), *self._edges(node, lenient)]

    def _edges(self, node: _Node, lenient: bool) -> list[tuple[_Node | str, bool]]:
        """Return what *node* waits for itself: what it says, else what its place says, and what its group does."""
        lenient = lenient or node.is_lenient
        inherited = self._edges(node.group, lenient) if node.group else ()
        return [*self._own_edges(node, lenient), *inherited]

    def _own_edges(self, node: _Node, lenient: bool) -> list[tuple[_Node | str, bool]]:
        edges: list[tuple[_Node | str, bool]] = []
        for entry in _entries(node.depends_on):
            key, tolerant = _read_entry(entry)
            if key:
                edges.append((self._by_key.get(key, key), lenient or tolerant))
        if not node.is_free:
            edges += [(one, lenient) for one in node.before]
        return edges

    def _read(self, pipeline: PipelineFile, runs: Container[str] | None) -> None:
        nodes = []
        for item in pipeline.steps:
            if isinstance(item, Group):
                inside = [self._add(leaf, runs is None or leaf.ident in runs) for leaf in item.steps]
                node = self._add(item, any(one.runs for one in inside))
                node.inside = _placed(inside)
                for one in inside:
                    one.group = node
            else:
                node = self._add(item, runs is None or item.ident in runs)
            nodes.append(node)
        _placed(nodes)

    def _add(self, part: Group | Leaf, runs: bool) -> _Node:
        if isinstance(part, PlainStep):
            lenient = isinstance(part.body, dict) and part.body.get("allow_dependency_failure")
        else:
            lenient = part.allow_dependency_failure
        node = _Node(
            title=part.group if isinstance(part, Group) else part.label or part.ident,
            key=part.key,
            runs=runs,
            is_gate=not isinstance(part, Group) and part.is_gate,
            is_wait=isinstance(part, PlainStep) and part.kind in WAITS,
            depends_on=part.depends_on,
            is_free="depends_on" in part.model_fields_set,
            is_lenient=bool(lenient),
        )
        self._by_part[id(part)] = node
        if part.key:
            self._by_key.setdefault(part.key, node)
        return node


def _placed(nodes: list[_Node]) -> list[_Node]:
    """Tell the nodes of one list what they wait for by their place: the gate before; a gate, all before it."""
    gate: _Node | None = None
    since: list[_Node] = []
    for node in nodes:
        node.before = [*([gate] if gate else []), *(since if node.is_gate else [])]
        if node.is_gate:
            gate, since = node, []
        else:
            since.append(node)
    return nodes


def _entries(value: Any) -> Sequence[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _read_entry(entry: Any) -> tuple[str | None, bool]:
    """Return the key an entry of `depends_on` names, and whether a failure there is tolerated."""
    if not isinstance(entry, dict):
        return (entry if isinstance(entry, str) else None), False
    key = entry.get("step")
    return (key if isinstance(key, str) else None), entry.get("allow_failure") is True


def named_by(part: Group | Leaf) -> Iterator[str]:
    """Yield the keys in the `depends_on` of *part*."""
    yield from (key for entry in _entries(part.depends_on) if (key := _read_entry(entry)[0]))
