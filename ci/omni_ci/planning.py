"""From files and a diff to a judged plan: the one path that `plan`, `generate` and `upload` share."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from omni_ci.changes import Build, ChangeSet, changed_files, listed_changes, tree_files, tree_links
from omni_ci.configuration import FOLDER, Configuration, Files, load_configuration
from omni_ci.definition import changed_definitions
from omni_ci.document import Problem
from omni_ci.git import NoRepositoryError, Repository
from omni_ci.loading import LoadError, load_pipeline
from omni_ci.model import PipelineFile
from omni_ci.places import Commit, Tree
from omni_ci.rendering import compose
from omni_ci.selection import ConfigKind, DefinitionChange, Mode, Selection, judge
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.project import load_project

PIPELINES = f"{FOLDER}/*/test-*.yml"


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
    """Everything known about one change and the pipelines it was judged for; *configurations* by their names."""

    root: Path
    pipelines: tuple[PipelineFile, ...]
    configurations: Mapping[str, Configuration]
    selection: Selection
    notices: tuple[str, ...]
    again: Callable[[str], Plan]  # the same question about another file


def make_plan(asked: Asked, *, here: Path, environ: Mapping[str, str]) -> Plan:
    """Return the plan for *asked*, read from folder *here*.

    Raises InputError for a file that does not exist or cannot be loaded and for an unknown preset or key. That
    the changes cannot be known is no error: everything runs, and the selection says why.
    """
    root = repository_root(here)
    tree = Tree(root)
    names = [named_from_root(file, root=root, here=here) for file in asked.files] or _found(root)
    pipelines = _loaded(names, tree)
    given = {kind: named_from_root(path, root=root, here=here) for kind, path in asked.given.items()}
    configurations = configurations_of(tree, [one.name for one in pipelines], given=given)
    for pipeline in pipelines:
        # a missing preset is an error whatever runs
        compose(pipeline, configurations[pipeline.name].equipment(pipeline.name))
    changes = _changes(asked, root, here, environ, configurations)
    definitions, more = _definitions(changes, pipelines, (tree, configurations), given)
    judged = partial(
        judge,
        changes=changes,
        tree=tree_files(root),
        definitions=definitions,
        labels=(*asked.labels, *_labels(environ)),
        links=tree_links(root),
        mode=asked.mode,
    )
    selection = _judged(pipelines, configurations, judged)
    said = (notice for one in configurations.values() for notice in one.notices)
    return Plan(
        root=root,
        pipelines=pipelines,
        configurations=configurations,
        selection=selection,
        again=lambda name: make_plan(replace(asked, files=(str(root / name),)), here=here, environ=environ),
        notices=tuple(dict.fromkeys((*said, *selection.notices, *more))),
    )


def configurations_of(
    files: Files, names: Iterable[str], *, given: Mapping[ConfigKind, str] | None = None
) -> dict[str, Configuration]:
    """Return what each pipeline is rendered with; those of one folder share it. Raises InputError."""
    vocabulary = load_project(files.root)
    found: dict[str, Configuration] = {}
    loaded: dict[str, Configuration] = {}
    for name in names:
        folder = posixpath.dirname(name)
        if folder not in loaded:
            loaded[folder] = load_configuration(files, [name], vocabulary=vocabulary, given=given)
        found[name] = loaded[folder]
    return found


def repository_root(here: Path) -> Path:
    """Return the root of the repository around *here*; *here* itself where there is none.

    Raises GitError where git is missing or refuses: another folder would be taken for the root.
    """
    try:
        return Repository.around(here).root
    except NoRepositoryError:
        return here.resolve()


def pipeline_names(root: Path) -> list[str]:
    """Return every `.buildkite/*/test-*.yml` of the repository, sorted."""
    return sorted(path.relative_to(root).as_posix() for path in root.glob(PIPELINES))


def named_from_root(path: str, *, root: Path, here: Path) -> str:
    """Return *path* as the repository knows it: from its root, absolute outside of it."""
    # os.path: Path.exists raises for a name that is too long
    full = here / path if os.path.exists(here / path) else root / path  # noqa: PTH110
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
    asked: Asked,
    root: Path,
    here: Path,
    environ: Mapping[str, str],
    configurations: Mapping[str, Configuration],
) -> ChangeSet:
    if asked.mode is not Mode.DIFF:
        return ChangeSet.of((), basis="not asked for")
    if asked.changed:
        return listed_changes(asked.changed, root, here=here)
    branches = {one.policy.main_branch: name for name, one in configurations.items()}
    if len(branches) > 1:
        (one, by_one), (other, by_other) = list(branches.items())[:2]
        what = f"main_branch is {one!r} for {by_one} and {other!r} for {by_other}"
        raise InputError(f"{what}; plan them one at a time, or name the commits with --base and --head")
    return changed_files(
        root,
        base=asked.base,
        head=asked.head,
        build=Build.of(environ),
        main_branch=next(iter(branches)),
    )


def _definitions(
    changes: ChangeSet,
    pipelines: Sequence[PipelineFile],
    head: tuple[Tree, Mapping[str, Configuration]],
    given: Mapping[ConfigKind, str],
) -> tuple[dict[str, DefinitionChange], tuple[str, ...]]:
    """Return the steps that are defined differently at the base; nothing where there is no base."""
    if not changes.known or changes.base is None:
        return {}, ()
    tree, configurations = head
    repository = Repository(tree.root)
    base = Commit(repository, changes.base)
    vocabulary = load_project(tree.root)
    found: dict[str, DefinitionChange] = {}
    for inside in _grouped(pipelines, lambda one: posixpath.dirname(one.name)).values():
        names = [one.name for one in inside]
        load = partial(load_configuration, pipelines=names, vocabulary=vocabulary, given=given)
        found |= changed_definitions(inside, head=(tree, configurations[names[0]]), base=base, load=load)
    if changes.head is not None and repository.commit("HEAD") != changes.head:
        short = changes.head[:12]
        return found, (f"pipelines and presets are read from the working tree, which is not at {short}",)
    return found, ()


def _judged(
    pipelines: Sequence[PipelineFile],
    configurations: Mapping[str, Configuration],
    judged: Callable[..., Selection],
) -> Selection:
    """Return the verdicts on all *pipelines* in their order, judged together where their files are the same."""
    selections = [
        judged(
            inside,
            policy=configurations[inside[0].name].policy,
            registry=configurations[inside[0].name].registry,
            configs=configurations[inside[0].name].sources,
        )
        for inside in _grouped(
            pipelines, lambda one: frozenset(configurations[one.name].texts.items())
        ).values()
    ]
    rank = {one.name: index for index, one in enumerate(pipelines)}
    verdicts = sorted((v for one in selections for v in one.verdicts), key=lambda verdict: rank[verdict.file])
    return replace(
        selections[0],
        policy=", ".join(dict.fromkeys(one.policy for one in selections)),
        verdicts=tuple(verdicts),
        notices=tuple(dict.fromkeys(notice for one in selections for notice in one.notices)),
    )


def _grouped(
    pipelines: Iterable[PipelineFile], by: Callable[[PipelineFile], Hashable]
) -> dict[Hashable, list[PipelineFile]]:
    groups: dict[Hashable, list[PipelineFile]] = {}
    for one in pipelines:
        groups.setdefault(by(one), []).append(one)
    return groups


def _labels(environ: Mapping[str, str]) -> list[str]:
    """Return the pull request's labels, as Buildkite hands them to the job."""
    listed = environ.get("BUILDKITE_PULL_REQUEST_LABELS", "")
    return [label.strip() for label in listed.split(",") if label.strip()]
