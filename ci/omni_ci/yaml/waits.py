"""Who waits for whom: by the keys in `depends_on`, by a group's, and by standing behind a `wait` or `block`.

One graph for all files of a build. What is left of it without some steps, in which order steps run on this machine,
and what goes along with a step asked for by name are questions to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_ci.yaml.model import Group, Leaf, PipelineFile, PlainStep, Step, step_id


def entries_of(depends_on: Any) -> list[Any]:
    """Return the entries of a `depends_on`, however it is written."""
    return [] if depends_on is None else list(depends_on) if isinstance(depends_on, list) else [depends_on]


def key_of(entry: Any) -> str | None:
    """Return the key that an entry of a `depends_on` names, None for one that cannot be read."""
    key = entry.get("step") if isinstance(entry, Mapping) else entry
    return key if isinstance(key, str) else None


def is_tolerant(entry: Any) -> bool:
    """Return whether an entry of a `depends_on` lets the step run after a failure."""
    return isinstance(entry, Mapping) and _is_true(entry.get("allow_failure"))


def keys_of(*depends_on: Any) -> tuple[str, ...]:
    """Return the keys that these `depends_on` name, each once."""
    keys = (key_of(entry) for value in depends_on for entry in entries_of(value))
    return tuple(dict.fromkeys(key for key in keys if key is not None))


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """A step, or a group with its steps *inside*. *before*: what it waits for by its place, tolerated or not."""

    file: str
    ident: str
    part: Group | Leaf
    group: Node | None = None
    inside: list[Node] = field(default_factory=list)
    before: list[tuple[Node, bool]] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The name across files."""
        return step_id(self.file, self.ident)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.part.group if isinstance(self.part, Group) else self.part.label or self.part.ident

    @property
    def steps(self) -> Sequence[Node]:
        """The steps it stands for: itself, or those of a group."""
        return self.inside or (self,)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys it waits for, its preset's and its group's included."""
        group = self.group.part.depends_on if self.group else None
        return keys_of(self.part.depends_on, list(self.preset_keys), group)

    @property
    def preset_keys(self) -> tuple[str, ...]:
        """The keys its preset has it wait for, beside those it names itself."""
        own = keys_of(self.part.depends_on)
        brought = self.part.preset_waits if isinstance(self.part, Step) else ()
        return tuple(key for key in brought if key not in own)

    @property
    def says(self) -> bool:
        """Whether it says what it waits for, be it nothing, so that its place does not."""
        return "depends_on" in self.part.model_fields_set

    @property
    def is_lenient(self) -> bool:
        """Whether it runs whatever becomes of the steps in its `depends_on`."""
        part = self.part
        if isinstance(part, PlainStep):
            return _is_true(_body_of(part).get("allow_dependency_failure"))
        return part.allow_dependency_failure is True


# What a step waits for, a key where no file has it, and whether a failure there is tolerated.
Edge = tuple[Node | str, bool]


class WaitGraph:
    """The steps of *pipelines* by `file#ident`, and what each waits for."""

    def __init__(self, pipelines: Iterable[PipelineFile] = ()) -> None:
        self.steps: dict[str, Node] = {}
        self._by_key: dict[str, list[Node]] = {}
        self._by_part: dict[int, Node] = {}
        for pipeline in pipelines:
            self.add(pipeline)

    def add(self, pipeline: PipelineFile) -> list[Node]:
        """Take the steps of one more file, and return them."""
        top: list[Node] = []
        for item in pipeline.steps:
            node = self._add(pipeline.name, item)
            if isinstance(item, Group):
                node.inside = [self._add(pipeline.name, leaf, node) for leaf in item.steps]
                _place(node.inside)
            top.append(node)
        _place(top)
        return [step for node in top for step in node.steps]

    def of(self, part: Group | Leaf) -> Node:
        """Return the node of a part of a file that was added."""
        return self._by_part[id(part)]

    def named(self, key: str | None) -> Sequence[Node]:
        """Return the steps and groups with this key, () where no file here has it."""
        return self._by_key.get(key or "", ())

    def steps_named(self, key: str) -> list[Node]:
        """Return the steps with this key, and those of a group with it."""
        return [step for node in self.named(key) for step in node.steps]

    def own_edges(self, node: Node) -> list[Edge]:
        """Return what *node* waits for without what its group does."""
        return [*self._keyed(node), *([] if node.says else node.before)]

    def edges(self, node: Node) -> list[Edge]:
        """Return what *node* waits for; a group's `depends_on` holds for its steps, its place for those that say nothing."""
        keyed = self._keyed(node)
        if node.group is not None:
            keyed += [(one, lenient or node.is_lenient) for one, lenient in self._keyed(node.group)]
        return [*keyed, *self.by_place(node)]

    def by_place(self, node: Node) -> list[Edge]:
        """Return what *node*, or its group, stands behind; nothing for one that says what it waits for."""
        around = [] if node.group is None or node.group.says else node.group.before
        return [] if node.says else [*node.before, *around]

    def direct(self, node: Node) -> dict[Node, bool]:
        """Return the steps that *node* waits for, and whether each failure is tolerated by every way it is named."""
        found: dict[Node, bool] = {}
        for target, lenient in self.edges(node):
            for step in () if isinstance(target, str) else target.steps:
                if step is not node:
                    found[step] = found.get(step, True) and lenient
        return found

    def _keyed(self, node: Node) -> list[Edge]:
        edges: list[Edge] = []
        for entry in [*entries_of(node.part.depends_on), *node.preset_keys]:
            if key := key_of(entry):
                lenient = is_tolerant(entry) or node.is_lenient
                edges += [(target, lenient) for target in self.named(key) or (key,)]
        return edges

    def _add(self, file: str, part: Group | Leaf, group: Node | None = None) -> Node:
        ident = part.key or part.group if isinstance(part, Group) else part.ident
        node = Node(file=file, ident=ident, part=part, group=group)
        self._by_part[id(part)] = node
        if part.key:
            self._by_key.setdefault(part.key, []).append(node)
        if not isinstance(part, Group):
            self.steps[node.id] = node
        return node


def _place(nodes: Iterable[Node]) -> None:
    """Tell the nodes of one list what they wait for by their place: the gate before; a gate, all before it."""
    gate: Node | None = None
    since: list[Node] = []
    for node in nodes:
        node.before = [(gate, False)] if gate else []
        if node.part.divides:
            lenient = _is_true(_body_of(node.part).get("continue_on_failure"))
            node.before += [(one, lenient) for one in since]
            gate, since = node, []
        else:
            since.append(node)


def _body_of(part: Group | Leaf) -> Mapping[str, Any]:
    """Return what a `wait` or its like says, {} for the bare word and for all other steps."""
    return part.body if isinstance(part, PlainStep) and isinstance(part.body, dict) else {}


def _is_true(value: Any) -> bool:
    return value is True or value == "true"
