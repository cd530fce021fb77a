"""From files and a diff to a judged plan: the one path that `plan`, `generate` and `upload` share."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from omni_ci.changes import Build, ChangeSet, changed_files, listed_changes, tree_files
from omni_ci.configuration import FOLDER, Configuration, load_configuration
from omni_ci.definition import changed_definitions
from omni_ci.document import Problem
from omni_ci.git import GitError, Repository
from omni_ci.loading import LoadError, load_pipeline
from omni_ci.model import PipelineFile
from omni_ci.places import Commit, Tree
from omni_ci.rendering import Rendered, compose
from omni_ci.selection import ConfigKind, DefinitionChange, Mode, Selection, judge
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.project import load_project

PIPELINES = f"{FOLDER}/*/test-*.yml"
_KEY_LINE = re.compile(r"""^[ \t]*(?:-[ \t]+)?key:[ \t]*["']?([^"'\s#]+)""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks for; empty fields mean "work it out"."""

    files: Sequence[str] = ()
    base: str | None = None
    head: str | None = None
    changed: Sequence[str] = ()
    mode: Mode = Mode.DIFF
    labels: Sequence[str] = ()
    given: Mapping[ConfigKind, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ways = {
            "--base/--head": self.base or self.head,
            "--changed": self.changed,
            "--all": self.mode is Mode.ALL,
            "--e2e": self.mode is Mode.E2E,
        }
        used = [way for way, is_used in ways.items() if is_used]
        if len(used) > 1:
            raise InputError(f"{' and '.join(used)} exclude each other; each says what to select by itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything known about one change and the pipelines it was judged for."""

    root: Path
    pipelines: tuple[PipelineFile, ...]
    configuration: Configuration
    selection: Selection
    notices: tuple[str, ...]

    def composed(self, pipeline: PipelineFile) -> Rendered:
        """Return what of *pipeline* would be uploaded, not yet through the typed classes."""
        return compose(
            pipeline,
            self.configuration.equipment(pipeline.name),
            runs=self.selection.running(pipeline.name),
        )

    def other_keys(self) -> frozenset[str]:
        """Return the step keys of every pipeline file of the repository, which `depends_on` may name."""
        texts = (Tree(self.root).read(str(path)) for path in sorted((self.root / FOLDER).rglob("*.yml")))
        return frozenset(key for text in texts for key in _KEY_LINE.findall(text or ""))


def make_plan(asked: Asked, *, here: Path, environ: Mapping[str, str]) -> Plan:
    """Return the plan for *asked*, read from folder *here*.

    Raises InputError for a file that does not exist or cannot be loaded and for an unknown preset or key. That
    the changes cannot be known is no error: everything runs, and the selection says why.
    """
    root = repository_root(here)
    tree = Tree(root)
    names = [named_from_root(file, root=root, here=here) for file in asked.files] or _found(root)
    pipelines = _loaded(names, tree)
    load = partial(
        load_configuration,
        pipelines=names,
        vocabulary=load_project(root),
        given={kind: named_from_root(path, root=root, here=here) for kind, path in asked.given.items()},
    )
    configuration = load(tree)
    for pipeline in pipelines:
        compose(
            pipeline, configuration.equipment(pipeline.name)
        )  # a missing preset is an error whatever runs
    changes = _changes(asked, root, here, environ, configuration)
    definitions, more = _definitions(changes, pipelines, (tree, configuration), load)
    selection = judge(
        pipelines,
        changes,
        policy=configuration.policy,
        registry=configuration.registry,
        tree=tree_files(root),
        definitions=definitions,
        configs=configuration.sources,
        labels=(*asked.labels, *_labels(environ)),
        mode=asked.mode,
    )
    return Plan(
        root=root,
        pipelines=pipelines,
        configuration=configuration,
        selection=selection,
        notices=tuple(dict.fromkeys((*configuration.notices, *selection.notices, *more))),
    )


def repository_root(here: Path) -> Path:
    """Return the root of the repository around *here*; *here* itself where there is none."""
    try:
        return Repository.around(here).root
    except GitError:
        return here.resolve()


def pipeline_names(root: Path) -> list[str]:
    """Return every `.buildkite/*/test-*.yml` of the repository, sorted."""
    return sorted(path.relative_to(root).as_posix() for path in root.glob(PIPELINES))


def named_from_root(path: str, *, root: Path, here: Path) -> str:
    """Return *path* as the repository knows it: from its root, absolute outside of it."""
    full = here / path if (here / path).exists() else root / path
    full = Path(os.path.normpath(full.absolute()))
    real = root.resolve()
    for base in (root, real):
        if full.is_relative_to(base):
            return full.relative_to(base).as_posix()
    return str(full)


def _found(root: Path) -> list[str]:
    found = pipeline_names(root)
    if not found:
        raise InputError(
            f"{root}: no pipeline matches {PIPELINES}; name a file, or start with `omni-ci init`"
        )
    return found


def _loaded(names: Sequence[str], tree: Tree) -> tuple[PipelineFile, ...]:
    """Load every file, and report the problems of all of them at once."""
    pipelines: list[PipelineFile] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        text = tree.read(name)
        if text is None:
            near = [path.relative_to(tree.root).as_posix() for path in tree.root.glob(f"{FOLDER}/**/*.yml")]
            raise InputError(f"{name}: there is no such pipeline file{did_you_mean(name, sorted(near))}")
        try:
            pipelines.append(load_pipeline(text, name=name))
        except LoadError as error:
            problems += error.problems
    if problems:
        raise LoadError(problems)
    return tuple(pipelines)


def _changes(
    asked: Asked, root: Path, here: Path, environ: Mapping[str, str], configuration: Configuration
) -> ChangeSet:
    if asked.changed:
        return listed_changes(asked.changed, root, here=here)
    return changed_files(
        root,
        base=asked.base,
        head=asked.head,
        build=Build.of(environ),
        main_branch=configuration.policy.main_branch,
    )


def _definitions(
    changes: ChangeSet,
    pipelines: Sequence[PipelineFile],
    head: tuple[Tree, Configuration],
    load: partial[Configuration],
) -> tuple[dict[str, DefinitionChange], tuple[str, ...]]:
    """Return the steps that are defined differently at the base; nothing where there is no base."""
    if not changes.known or changes.base is None:
        return {}, ()
    repository = Repository(head[0].root)
    base = Commit(repository, changes.base)
    found = changed_definitions(pipelines, head=head, base=base, load=load)
    if changes.head is not None and repository.commit("HEAD") != changes.head:
        short = changes.head[:12]
        return found, (f"pipelines and presets are read from the working tree, which is not at {short}",)
    return found, ()


def _labels(environ: Mapping[str, str]) -> list[str]:
    """Return the pull request's labels, as Buildkite hands them to the job."""
    listed = environ.get("BUILDKITE_PULL_REQUEST_LABELS", "")
    return [label.strip() for label in listed.split(",") if label.strip()]
