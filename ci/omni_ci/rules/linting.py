"""All rules over a repository's pipelines: loaded once, asked in the order of their codes, answers sorted."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_ci.configuration import ConfigKind, Configuration, load_configuration
from omni_ci.repository.changes import tree_files, tree_links
from omni_ci.repository.places import FOLDER, Tree
from omni_ci.repository.roots import PIPELINES, named_from_root, pipeline_names, repository_root
from omni_ci.rules.context import Context
from omni_ci.rules.discovery import rules
from omni_ci.rules.lint_findings import Finding
from omni_ci.rules.rule import Rule
from omni_ci.selection.mirrors import Mirrors
from omni_ci.yaml.document import Problem
from omni_ci.yaml.loading import LoadError
from omni_ci.yaml.model import Group, Leaf, PipelineFile
from omni_hardware.errors import InputError, OmniError, did_you_mean
from omni_hardware.own_markers import own_markers
from omni_hardware.project import load_project


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository ready to be asked about, and what a reader should know of it."""

    context: Context
    notices: tuple[str, ...]


def chosen(select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules that *select* names (empty: all) without those that *ignore* names. Raises InputError."""
    known = rules()
    for code in (*select, *ignore):
        if code.upper() not in known:
            raise InputError(f"no rule {code!r}{did_you_mean(code, known)}; `omni-ci lint --list` shows them")
    wanted = {code.upper() for code in select} or known.keys()
    unwanted = {code.upper() for code in ignore}
    return tuple(rule for code, rule in known.items() if code in wanted and code not in unwanted)


def findings(context: Context, asked: Iterable[Rule]) -> tuple[Finding, ...]:
    """Return what the rules *asked* find, by place; the same thing said twice is said once."""
    found = {
        Finding(
            file=one.file, line=one.line, code=rule.code, message=one.message, subject=one.subject, key=one.key
        )
        for rule in asked
        for one in rule.check(context)
    }  # fmt: skip
    return tuple(sorted(found))


def load_repository(
    here: Path,
    files: Sequence[str] = (),
    *,
    given: Mapping[ConfigKind, str] | None = None,
    known_keys: Iterable[str] = (),
) -> Repository:
    """Return the repository around *here*, ready to be asked about *files* (without any: all its pipelines).

    Raises LoadError with the problems of every pipeline asked about, InputError for a file that does not exist.
    """
    root = repository_root(here)
    tree = Tree(root)
    loading = _Loading(
        tree=tree,
        mirrors=Mirrors.of({}, load_project(root), own_markers(tree.read)),
        given={kind: named_from_root(path, root=root, here=here) for kind, path in (given or {}).items()},
        configurations={},
        pipelines={},
        refused={},
    )
    every = pipeline_names(root)
    names = [named_from_root(file, root=root, here=here) for file in files] or every
    if not names:
        raise InputError(
            f"{root}: no pipeline matches {PIPELINES}; name a file, or start with `omni-ci init`"
        )
    loading.all_of(names)
    notices = [said for name in every if name not in names for said in loading.try_one(name)]
    listed = tree_files(root)
    context = Context(
        files=loading.tree,
        names=listed if listed is not None else frozenset(_walked(root)),
        pipelines=tuple(loading.pipelines.values()),
        configurations=loading.configurations,
        judged=frozenset(names),
        vocabulary=loading.mirrors.vocabulary,
        links=tree_links(root),
        refused=loading.refused,
        elsewhere=frozenset(known_keys),
    )
    return Repository(context, tuple(dict.fromkeys((*notices, *_said(loading, names)))))


@dataclass(slots=True, kw_only=True)
class _Loading:
    tree: Tree
    mirrors: Mirrors
    given: Mapping[ConfigKind, str]
    configurations: dict[str, Configuration]
    pipelines: dict[str, PipelineFile]
    refused: dict[str, tuple[Problem, ...]]

    def all_of(self, names: Sequence[str]) -> None:
        """Load *names*, and report the problems of all of them at once. Raises LoadError."""
        problems: list[Problem] = []
        for name in dict.fromkeys(names):
            try:
                self._one(name)
            except LoadError as error:
                problems += error.problems
        if problems:
            raise LoadError(problems)

    def try_one(self, name: str) -> Sequence[str]:
        """Load *name*, and return what went wrong: nobody asked about it."""
        try:
            self._one(name)
        except OmniError as error:
            return (f"{name} is not looked at: {str(error).splitlines()[0]}",)
        return ()

    def _one(self, name: str) -> None:
        text = self.tree.read(name)
        if text is None:
            known = pipeline_names(self.tree.root)
            raise InputError(f"{name}: there is no such pipeline file{did_you_mean(name, known)}")
        pipeline = self.mirrors.load(text, name)
        configuration = self._configuration(name)
        try:
            pipeline = self.mirrors.fit(pipeline, configuration).pipeline
        except InputError:
            pipeline = self._fitted_apart(pipeline, configuration)
        self.configurations[name] = configuration
        self.pipelines[name] = pipeline

    def _fitted_apart(self, pipeline: PipelineFile, configuration: Configuration) -> PipelineFile:
        """Return *pipeline* with the hardware of each step that has some; why another has none is kept for the rules."""
        problems: list[Problem] = []

        def fit(leaf: Leaf) -> Leaf:
            alone = pipeline.model_copy(update={"steps": (leaf,)})
            try:
                return next(one for _, one in self.mirrors.fit(alone, configuration).pipeline.leaves())
            except LoadError as error:
                problems.extend(error.problems)
            except InputError:
                pass  # an unknown preset, which rendering the step says too
            return leaf

        steps = tuple(
            item.model_copy(update={"steps": tuple(map(fit, item.steps))})
            if isinstance(item, Group)
            else fit(item)
            for item in pipeline.steps
        )
        self.refused[pipeline.name] = tuple(problems)
        return pipeline.model_copy(update={"steps": steps})

    def _configuration(self, name: str) -> Configuration:
        """Return what *name* is rendered with; the files of one folder share it."""
        folder = posixpath.dirname(name)
        shared = (one for other, one in self.configurations.items() if posixpath.dirname(other) == folder)
        return next(shared, None) or load_configuration(
            self.tree, [name], vocabulary=self.mirrors.vocabulary, given=self.given
        )


def _walked(root: Path) -> Iterable[str]:
    """Yield the files of a folder that is no repository, hidden folders but for .buildkite left out."""
    for path in root.rglob("*"):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(part.startswith(".") and part != FOLDER for part in parts[:-1]):
            yield "/".join(parts)


def _said(loading: _Loading, names: Iterable[str]) -> Iterable[str]:
    for name in names:
        yield from loading.pipelines[name].notices
        yield from loading.configurations[name].notices
