"""What the reasons of a selection are drawn from, indexed once for all steps."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from omni_ci.configuration import ConfigKind
from omni_ci.policy import Policy
from omni_ci.repository.changes import ChangeSet
from omni_ci.repository.imports import ImportGraph
from omni_ci.repository.named_tests import CONFTEST, Named, conftests_above, is_test, named_tests
from omni_ci.repository.patterns import matches, matching
from omni_ci.repository.pytest_settings import NO_SETTINGS, SETTINGS_FILES, PytestSettings
from omni_ci.repository.watching import NO_LINKS, Links, PathIndex
from omni_ci.selection.watches import Watched, listing, opened
from omni_ci.shell.invocations import invocations
from omni_ci.yaml.model import Group, Leaf, step_id
from omni_ci.yaml.registry import NO_REGISTRY, Registry


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a selection is judged by.

    *tree* holds the paths at the head (None: not known, so that vanished paths cannot be told). *definitions*
    maps `file#ident` to steps whose rendered form differs from the base's. *configs* maps the presets,
    template, registry and policy files in use to what they are: listed by hand, they select what they render.
    *links* says which paths of the tree have further names. *decided* holds, by `file#ident`, what was settled
    already: by name, by an earlier selection, by hardware that is not there. *imports* is asked for what
    tests import, where policy or the step counts that. *pytest* is asked where pytest looks for tests without being
    told, *pytest_before* for the same at the base (None: it is not known).
    """

    changes: ChangeSet
    policy: Policy
    registry: Registry = NO_REGISTRY
    tree: frozenset[str] | None = None
    definitions: Mapping[str, DefinitionChange] = field(default_factory=dict)
    configs: Mapping[str, ConfigKind] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    links: Links = NO_LINKS
    decided: Mapping[str, Decision] = field(default_factory=dict)
    imports: ImportGraph | None = None
    pytest: PytestSettings = NO_SETTINGS
    pytest_before: PytestSettings | None = None


@dataclass(kw_only=True)
class Facts:
    """The change, the policy and the trees, with every question about them answered by a binary search."""

    evidence: Evidence
    notices: list[str] = field(default_factory=list)
    _opened: dict[tuple[str, ...], tuple[Watched, ...]] = field(default_factory=dict)
    _hits: dict[tuple[str, ...], Reason | None] = field(default_factory=dict)
    _named: dict[tuple[str, ...], tuple[Named, ...]] = field(default_factory=dict)
    _tests: dict[tuple[str, ...], PathIndex] = field(default_factory=dict)
    # by commands and, since many steps share tests, by files
    _closures: dict[tuple[str, ...], Mapping[str, str | None]] = field(default_factory=dict)

    @property
    def changes(self) -> ChangeSet:
        """What changed."""
        return self.evidence.changes

    @property
    def policy(self) -> Policy:
        """The policy it is judged by."""
        return self.evidence.policy

    @property
    def links(self) -> Links:
        """Which paths have further names."""
        return self.evidence.links

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
        return PathIndex(self.links.names(self.evidence.tree or ()))

    @cached_property
    def run_all(self) -> str | None:
        """The first changed path that concerns every step."""
        return next(iter(matching(self.names, self.policy.run_all)), None)

    @cached_property
    def registry_run_all(self) -> str | None:
        """The first changed path the registry counts for every step with dependencies."""
        return next(
            (hit for path in self.evidence.registry.run_all if (hit := self.changed.first_under(path))), None
        )

    @cached_property
    def coverage_input(self) -> str | None:
        """The first changed path that alters what coverage measures."""
        return next(iter(matching(self.names, self.policy.coverage.inputs)), None)

    def is_path(self, entry: str) -> bool:
        """Return whether *entry*, written like a registry key, is a path at the head or in the change."""
        return self.head.holds(entry) or self.changed.holds(entry)

    def watched_change(self, entries: tuple[str, ...]) -> Reason | None:
        """Return why a dependency list asks for a run: a change under it, or a path of it that is gone."""
        if entries not in self._hits:
            self._hits[entries] = self._watched_change(entries)
        return self._hits[entries]

    def named_tests(self, commands: tuple[str, ...]) -> tuple[Named, ...]:
        """Return where each run of *commands* takes its tests from."""
        if commands not in self._named:
            runs = invocations(commands).runs
            self._named[commands] = tuple(named_tests(run, self.evidence.pytest, self.head) for run in runs)
        return self._named[commands]

    def changed_tests(self, patterns: tuple[str, ...]) -> PathIndex:
        """Return the changed test files by *patterns* of their names, conftests and moved submodules among them."""
        if patterns not in self._tests:
            held = self.links.submodules
            found = (path for path in self.names if is_test(path, (*patterns, CONFTEST)) or path in held)
            self._tests[patterns] = PathIndex(path for path in found if path not in self.docs)
        return self._tests[patterns]

    @cached_property
    def changed_settings(self) -> frozenset[str]:
        """The changed files that pytest could read its settings from."""
        return frozenset(path for path in self.names if posixpath.basename(path) in SETTINGS_FILES)

    def imported_by(self, commands: tuple[str, ...]) -> Mapping[str, str | None]:
        """Return what the tests of *commands* lead to by import statements, as ImportGraph.closure does."""
        if commands not in self._closures:
            files = tuple(sorted(self._files_of(commands)))
            graph = self.evidence.imports
            if files not in self._closures:
                self._closures[files] = graph.closure(files) if graph else {}
            self._closures[commands] = self._closures[files]
        return self._closures[commands]

    def _files_of(self, commands: tuple[str, ...]) -> Iterator[str]:
        """Yield the Python files at the head that *commands* take their tests from, and the conftests above."""
        for named in self.named_tests(commands):
            patterns = (*named.settings.test_files, CONFTEST)
            for place in named.places:
                found = named.all(place, self.head)
                kept = (path for path in found if not place.is_searched or is_test(path, patterns))
                yield from (path for path in kept if path.endswith(".py"))
                yield from (path for path in conftests_above(place.path) if path in self.head)

    def why_not(self, case: Case) -> Reason:
        """Return why a step does not run, once no reason to run it was found."""
        if case.group and case.gate and self.watched_change(case.gate) is None:
            because = (
                f"nothing changed under {self._said(case.gate)}, which its group {case.group.group!r} watches"
            )
            return Reason(self._rule(case.gate), because)
        entries = case.own or case.gate
        for one in self._watched(entries):
            if path := self.docs.first_under(one.path, one.excluding):
                return Reason(_rule_of(one), f"only documentation changed under {one} ({path})")
        return Reason(self._rule(entries), f"nothing changed under {self._said(entries)}")

    def _said(self, entries: tuple[str, ...]) -> str:
        keys = {one.key for one in self._watched(entries)}
        return listing(tuple(f"the paths of {one!r}" if one in keys else one for one in entries))

    def _rule(self, entries: tuple[str, ...]) -> Rule:
        return Rule.KEY if any(one.key for one in self._watched(entries)) else Rule.PREFIX

    def _watched(self, entries: tuple[str, ...]) -> tuple[Watched, ...]:
        if entries not in self._opened:
            self._opened[entries] = tuple(opened(entries, self.evidence.registry))
        return self._opened[entries]

    def _watched_change(self, entries: tuple[str, ...]) -> Reason | None:
        watched = [one for one in self._watched(entries) if not one.is_nothing]
        for one in watched:
            # A changed document counts for a list that names documentation, not for one that names code beside it.
            index = self.changed if self._names_docs(one.path) else self.code
            if path := index.first_under(one.path, one.excluding):
                return Reason(
                    _rule_of(one), f"{path} changed" + ("" if path == str(one) else f", under {one}")
                )
            if (module := self.links.submodule_of(one.path)) and module in self.changed:
                return Reason(_rule_of(one), f"{module} changed, the submodule that holds {one}")
        for one in watched:
            if one.path and self.head and not self._exists(one.path):
                return Reason(_rule_of(one), f"it watches {one}, which does not exist")
        if not watched:
            because = f"it watches nothing: {listing(entries)} takes out all it names"
            return Reason(self._rule(entries), because)
        return None

    def _exists(self, path: str) -> bool:
        return self.head.holds(path) or self.links.submodule_of(path) is not None

    def _names_docs(self, path: str) -> bool:
        return bool(path) and matches(path if path in self.docs else f"{path}/x", self.policy.docs)


def _rule_of(one: Watched) -> Rule:
    return Rule.KEY if one.key else Rule.PREFIX
