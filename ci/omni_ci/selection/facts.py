"""What the reasons of a selection are drawn from, indexed once for all steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from omni_ci.configuration import ConfigKind
from omni_ci.policy import Policy
from omni_ci.repository.changes import ChangeSet
from omni_ci.repository.imports import ImportGraph
from omni_ci.repository.patterns import matches, matching
from omni_ci.repository.watching import Links, PathIndex
from omni_ci.yaml.model import Group, Leaf, step_id
from omni_ci.yaml.registry import Registry, is_key


class Rule(StrEnum):
    """The kind of reason, as selection.json names it."""

    PREFIX = "prefix"
    KEY = "key"
    RUN_ALL = "runall"
    SELF = "self"
    TEST = "test"
    COVERAGE = "coverage"
    IMPORT = "import"
    LABEL = "label"
    ONLY = "only"
    HARDWARE = "hardware"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a step runs, or does not; shown to people."""

    rule: Rule
    because: str


# What was settled about a step before its rules are asked: whether it runs, and why.
Decision = tuple[bool, Reason]


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A step whose rendered form differs between base and head, or whose base cannot be read."""

    because: str


@dataclass(frozen=True, slots=True)
class Case:
    """A step to judge, with its file and group."""

    file: str
    group: Group | None
    leaf: Leaf

    @property
    def id(self) -> str:
        """The step's name across files."""
        return step_id(self.file, self.leaf.ident)

    @property
    def place(self) -> str:
        """The step's place and label, for notices."""
        return f"{self.leaf.where.file}:{self.leaf.where.line}: step {self.leaf.label or self.leaf.ident!r}"

    @property
    def gate(self) -> tuple[str, ...]:
        """The dependencies of the step's group."""
        return (self.group.source_file_dependencies if self.group else None) or ()

    @property
    def own(self) -> tuple[str, ...]:
        """The step's own dependencies."""
        return self.leaf.source_file_dependencies or ()


@dataclass(frozen=True, slots=True)
class _Watched:
    """One watched path, the registry key it comes from, and what is taken out of it; "" is everything."""

    path: str
    key: str | None
    excluding: tuple[str, ...]

    @property
    def rule(self) -> Rule:
        return Rule.KEY if self.key else Rule.PREFIX

    def __str__(self) -> str:
        if not self.path:
            return f"anything but {listing(self.excluding)}"
        return f"{self.path} of {self.key!r}" if self.key else self.path


@dataclass(kw_only=True)
class Facts:
    """The change, the policy and the trees, with every question about them answered by a binary search."""

    changes: ChangeSet
    policy: Policy
    registry: Registry
    tree: frozenset[str] | None
    definitions: Mapping[str, DefinitionChange]
    configs: Mapping[str, ConfigKind]
    labels: tuple[str, ...]
    links: Links
    decided: Mapping[str, Decision] = field(default_factory=dict)
    imports: ImportGraph | None = None
    notices: list[str] = field(default_factory=list)
    _hits: dict[tuple[str, ...], Reason | None] = field(default_factory=dict)
    _closures: dict[tuple[str, ...], Mapping[str, str | None]] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The changed paths, and the names they have through a symbolic link."""
        return tuple(self.links.names(self.changes.files))

    @cached_property
    def changed(self) -> PathIndex:
        """Every changed path, under every name it has."""
        return PathIndex(self.names)

    @cached_property
    def docs(self) -> PathIndex:
        """The changed paths that are documentation."""
        return PathIndex(matching(self.names, self.policy.docs))

    @cached_property
    def code(self) -> PathIndex:
        """The changed paths that are not."""
        return PathIndex(path for path in self.names if path not in self.docs)

    @cached_property
    def head(self) -> PathIndex:
        """The paths at the head, under every name they have; empty where they are not known."""
        return PathIndex(self.links.names(self.tree or ()))

    @cached_property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The registry's keys."""
        return self.registry.keys

    @cached_property
    def run_all(self) -> str | None:
        """The first changed path that concerns every step."""
        return next(iter(matching(self.changes.files, self.policy.run_all)), None)

    @cached_property
    def registry_run_all(self) -> str | None:
        """The first changed path the registry counts for every step with dependencies."""
        return next((hit for path in self.registry.run_all if (hit := self.changed.first_under(path))), None)

    @cached_property
    def coverage_input(self) -> str | None:
        """The first changed path that alters what coverage measures."""
        return next(iter(matching(self.changes.files, self.policy.coverage.inputs)), None)

    def is_path(self, entry: str) -> bool:
        """Return whether *entry*, written like a registry key, is a path at the head or in the change."""
        return self.head.holds(entry) or self.changed.holds(entry)

    def watched_change(self, entries: tuple[str, ...]) -> Reason | None:
        """Return why a dependency list asks for a run: a change under it, or a path of it that is gone."""
        if entries not in self._hits:
            self._hits[entries] = self._watched_change(entries)
        return self._hits[entries]

    def imported_by(self, files: tuple[str, ...]) -> Mapping[str, str | None]:
        """Return what *files* lead to by import statements, as ImportGraph.closure does; nothing where none counts."""
        if self.imports is None:
            return {}
        if files not in self._closures:
            self._closures[files] = self.imports.closure(files)
        return self._closures[files]

    def why_not(self, case: Case) -> Reason:
        """Return why a step does not run, once no reason to run it was found."""
        if case.group and case.gate and self.watched_change(case.gate) is None:
            because = f"nothing changed under {self._named(case.gate)}, which its group {case.group.group!r} watches"
            return Reason(self._rule(case.gate), because)
        entries = case.own or case.gate
        for one in self._watched(entries):
            if path := self.docs.first_under(one.path, one.excluding):
                return Reason(one.rule, f"only documentation changed under {one} ({path})")
        return Reason(self._rule(entries), f"nothing changed under {self._named(entries)}")

    def _named(self, entries: tuple[str, ...]) -> str:
        return listing(tuple(f"the paths of {one!r}" if one in self.keys else one for one in entries))

    def _rule(self, entries: tuple[str, ...]) -> Rule:
        return Rule.KEY if any(entry in self.keys for entry in entries) else Rule.PREFIX

    def _watched_change(self, entries: tuple[str, ...]) -> Reason | None:
        watched = list(self._watched(entries))
        for one in watched:
            # A changed document counts for a list that names documentation, not for one that names code beside it.
            index = self.changed if self._names_docs(one.path) else self.code
            if path := index.first_under(one.path, one.excluding):
                return Reason(one.rule, f"{path} changed" + ("" if path == str(one) else f", under {one}"))
            if (module := self.links.submodule_of(one.path)) and module in self.changed:
                return Reason(one.rule, f"{module} changed, the submodule that holds {one}")
        for one in watched:
            if one.path and self.head and not self._exists(one.path):
                return Reason(one.rule, f"it watches {one}, which does not exist")
        return None

    def _exists(self, path: str) -> bool:
        return self.head.holds(path) or self.links.submodule_of(path) is not None

    def _watched(self, entries: tuple[str, ...]) -> Iterator[_Watched]:
        """Yield the paths of a dependency list, keys opened; its exclusions hold for its keys too."""
        holes = _excluded(entries)
        wanted = [entry for entry in entries if not entry.startswith("!")]
        if not wanted:
            yield _Watched("", None, holes)
        for entry in wanted:
            if not (is_key(entry) and entry in self.keys):
                yield _Watched(entry, None, holes)
                continue
            listed = self.keys[entry]
            inner = (*holes, *_excluded(listed))
            yield from (_Watched(path, entry, inner) for path in listed if not path.startswith("!"))

    def _names_docs(self, path: str) -> bool:
        bare = path.rstrip("/")
        return bool(bare) and matches(bare if bare in self.docs else f"{bare}/x", self.policy.docs)


def listing(entries: tuple[str, ...]) -> str:
    """Return a few of *entries* and how many more there are."""
    few, more = entries[:3], len(entries) - 3
    return ", ".join(few) + (f" and {more} more" if more > 0 else "")


def _excluded(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(entry[1:] for entry in entries if entry.startswith("!"))
