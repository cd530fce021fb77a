"""What each selected step waits for, as Buildkite would have it: by keys, groups and `wait`, through what is left out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from omni_ci.yaml.model import Group, Leaf, PipelineFile, PlainStep, step_id
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
    graph = _Graph()
    for pipeline in pipelines:
        graph.add(pipeline)
    _refuse_circle({one: graph.direct(one) for one in graph.nodes})
    by_id = {one: graph.reached(one, selected) for one in graph.nodes if one in selected}
    return Waits(by_id=by_id, notices=graph.notices)


@dataclass(slots=True, kw_only=True)
class _Node:
    """A step. before: what it waits for by its place. entries: what its `depends_on` and its group's say."""

    before: dict[str, bool]
    entries: list[tuple[str, bool]]
    is_lenient: bool


@dataclass(slots=True)
class _Graph:
    nodes: dict[str, _Node] = field(default_factory=dict)
    by_key: dict[str, list[str]] = field(default_factory=dict)
    unknown: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what to say about the keys that no file here has."""
        return tuple(
            f"{key!r} is in no file here, so it is taken as done: {next(iter(names))}"
            f"{f' and {len(names) - 1} more wait' if len(names) > 1 else ' waits'} for it"
            for key, names in self.unknown.items()
        )

    def add(self, pipeline: PipelineFile) -> None:
        """Take the steps of a file; those of a list stand behind its last gate, a gate behind all before it."""
        gate: str | None = None
        since: list[str] = []
        for item in pipeline.steps:
            before = {gate: False} if gate else {}
            if isinstance(item, Group):
                since += self._add_group(pipeline.name, item, before)
                continue
            name = step_id(pipeline.name, item.ident)
            if isinstance(item, PlainStep) and item.is_gate:
                lenient = isinstance(item.body, dict) and item.body.get("continue_on_failure") is True
                before |= dict.fromkeys(since, lenient)
                gate, since = name, []
            else:
                since.append(name)
            self._add(name, item, before)

    def direct(self, name: str) -> dict[str, bool]:
        """Return the steps that *name* itself waits for."""
        node = self.nodes[name]
        found = dict(node.before)
        for key, lenient in node.entries:
            if key not in self.by_key:
                self.unknown.setdefault(key, {})[name] = None
            for target in self.by_key.get(key, ()):
                if target != name:
                    found[target] = found.get(target, True) and (lenient or node.is_lenient)
        return found

    def reached(self, name: str, selected: Container[str]) -> dict[str, bool]:
        """Return the selected steps that *name* waits for, through those that are left out."""
        found: dict[str, bool] = {}
        seen: set[tuple[str, bool]] = set()
        todo = list(self.direct(name).items())
        while todo:
            target, lenient = todo.pop(0)
            if (target, lenient) in seen:
                continue
            seen.add((target, lenient))
            if target in selected:
                found[target] = found.get(target, True) and lenient
            else:
                todo += [(one, lenient or tolerant) for one, tolerant in self.direct(target).items()]
        return found

    def _add_group(self, file: str, group: Group, before: dict[str, bool]) -> list[str]:
        names = [step_id(file, leaf.ident) for leaf in group.steps]
        if group.key:
            self.by_key.setdefault(group.key, []).extend(names)
        if "depends_on" in group.model_fields_set:
            before = {}
        for name, leaf in zip(names, group.steps, strict=True):
            self._add(name, leaf, before, _entries(group.depends_on))
        return names

    def _add(
        self, name: str, leaf: Leaf, before: dict[str, bool], more: Iterable[tuple[str, bool]] = ()
    ) -> None:
        lenient = (
            isinstance(leaf.body, dict) and leaf.body.get("allow_dependency_failure") is True
            if isinstance(leaf, PlainStep)
            else leaf.allow_dependency_failure is True
        )
        says = "depends_on" in leaf.model_fields_set
        self.nodes[name] = _Node(
            # a step that says what it waits for does not wait by its place
            before={} if says else dict(before),
            entries=[*_entries(leaf.depends_on), *more],
            is_lenient=lenient,
        )
        if leaf.key:
            self.by_key.setdefault(leaf.key, []).append(name)


def _entries(value: Any) -> Iterator[tuple[str, bool]]:
    """Yield the keys of a `depends_on`, and whether a failure there is tolerated."""
    for entry in value if isinstance(value, list) else [] if value is None else [value]:
        if isinstance(entry, dict) and isinstance(entry.get("step"), str):
            yield entry["step"], entry.get("allow_failure") is True
        elif isinstance(entry, str):
            yield entry, False


def _refuse_circle(edges: Mapping[str, Mapping[str, bool]]) -> None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        # it names each step before the one that waits for it
        circle = " waits for ".join(reversed(error.args[1]))
        raise InputError(
            f"steps wait for each other in a circle: {circle}; take out one `depends_on`"
        ) from None
