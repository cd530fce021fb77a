"""Everything a plan is made from, read: pipelines with their hardware, configuration, a stored selection, minutes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omni_ci.configuration import ConfigKind, Configuration, Files, load_configuration
from omni_ci.hardware.equipping import place
from omni_ci.hardware.inference import Fitted
from omni_ci.rendering.steps import compose
from omni_ci.repository.changes import Build, ChangeSet, changed_files, listed_changes
from omni_ci.repository.places import Tree
from omni_ci.repository.roots import PIPELINES, named_from_root, pipeline_names, repository_root
from omni_ci.selection.asking import Asked
from omni_ci.selection.costs import DEFAULT as DURATIONS
from omni_ci.selection.costs import Durations, load_durations
from omni_ci.selection.judging import Mode
from omni_ci.selection.mirrors import Mirrors
from omni_ci.selection.origin import Origin, origin_of
from omni_ci.yaml.document import Problem
from omni_ci.yaml.loading import LoadError
from omni_ci.yaml.model import PipelineFile, Step
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.own_markers import own_markers
from omni_hardware.project import load_project

if TYPE_CHECKING:
    from omni_ci.selection.replaying import Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What was read; *configurations* by the pipelines' names, *given* the files that flags name."""

    asked: Asked
    tree: Tree
    mirrors: Mirrors
    fits: tuple[Fitted, ...]
    configurations: Mapping[str, Configuration]
    given: Mapping[ConfigKind, str]
    origin: Origin
    changes: ChangeSet
    replay: Replay | None
    durations: Durations | None

    @property
    def pipelines(self) -> tuple[PipelineFile, ...]:
        """The pipelines asked about, in their order."""
        return tuple(fit.pipeline for fit in self.fits)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of the plan should know about them."""
        return (
            *(notice for one in self.configurations.values() for notice in one.notices),
            *(notice for one in self.pipelines for notice in one.notices),
            *self.origin.notices,
            *self._unmapped_labels(),
            *(notice for fit in self.fits for notice in fit.notices),
        )

    def _unmapped_labels(self) -> Iterator[str]:
        """Yield what to say of the labels that were typed and that no policy maps to steps."""
        known = {label for one in self.configurations.values() for label in one.policy.labels}
        for label in self.asked.labels:
            if label not in known:
                hint = did_you_mean(label, sorted(known)) if known else " (it has no `labels:`)"
                yield f"--label {label}: policy maps no such label{hint}"


def read_inputs(asked: Asked, *, here: Path, environ: Mapping[str, str]) -> Inputs:
    """Return what *asked* is to be planned from, paths read from folder *here*.

    Raises InputError for a file that does not exist or cannot be loaded and for an unknown preset, and
    InfrastructureError where the configuration's side cannot be known.
    """
    tree = Tree(repository_root(here))
    reader = _Reader(asked=asked, here=here, tree=tree, build=Build.of(environ))
    replay = reader.replay()
    stored = replay.stored.files if replay else ()
    names = [reader.name(file) for file in asked.files] or list(stored) or _found(tree.root)
    if missing := [name for name in names if replay and name not in stored]:
        hint = did_you_mean(missing[0], stored)
        raise InputError(f"{asked.stored} has no step of {missing[0]}{hint}")
    mirrors = Mirrors.of(environ, load_project(tree.root), own_markers(tree.read))
    loaded = _loaded(names, tree, mirrors)
    given = {kind: reader.name(path) for kind, path in asked.given.items()}
    origin = origin_of(
        tree,
        asked=asked.config_from,
        environ=environ,
        find=lambda: reader.base(replay, lambda: configurations_of(tree, names, given=given)),
    )
    with _explained(origin):
        configurations = configurations_of(origin.files, names, given=given)
        fits = _fitted(loaded, configurations, mirrors)
    return Inputs(
        asked=asked,
        tree=tree,
        mirrors=mirrors,
        fits=fits,
        configurations=configurations,
        given=given,
        origin=origin,
        changes=replay.changes() if replay else reader.changes(configurations, origin),
        replay=replay,
        durations=reader.durations(),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """What was asked, and from where."""

    asked: Asked
    here: Path
    tree: Tree
    build: Build

    def name(self, path: str) -> str:
        return named_from_root(path, root=self.tree.root, here=self.here)

    def replay(self) -> Replay | None:
        path = self.asked.stored
        if path is None:
            return None
        from omni_ci.selection.replaying import load_selection  # 15 ms of models, and only here

        return load_selection(self._text("--from", path), name=path)

    def durations(self) -> Durations | None:
        path = self.asked.durations
        if path is not None:
            return load_durations(self._text("--durations", path), name=path)
        text = self.tree.read(DURATIONS)
        return None if text is None else load_durations(text, name=DURATIONS)

    def base(self, replay: Replay | None, at_head: Callable[[], Mapping[str, Configuration]]) -> ChangeSet:
        """Return changes with the base to read the configuration from; *at_head* is asked for its main branch only."""
        if replay is not None:
            return replay.changes()
        branch = self.build.base_branch or ""
        return self._diff(branch if self.build.is_pull_request and branch else _main_branch(at_head()))

    def changes(self, configurations: Mapping[str, Configuration], origin: Origin) -> ChangeSet:
        if self.asked.mode is not Mode.DIFF or self.asked.only:
            return ChangeSet.of((), basis="not asked for")
        if self.asked.changed:
            return listed_changes(self.asked.changed, self.tree.root, here=self.here)
        return origin.changes or self._diff(_main_branch(configurations))

    def _diff(self, main_branch: str) -> ChangeSet:
        return changed_files(
            self.tree.root,
            base=self.asked.base,
            head=self.asked.head,
            build=self.build,
            main_branch=main_branch,
        )

    def _text(self, flag: str, path: str) -> str:
        text = self.tree.read(self.name(path))
        if text is None:
            raise InputError(f"{flag} {path}: there is no such file")
        return text


@contextmanager
def _explained(origin: Origin) -> Iterator[None]:
    """Say beside a mistake which side's files it was found with."""
    try:
        yield
    except InputError as error:
        if not origin.notices:
            raise
        raise InputError("\n".join([str(error), *origin.notices])) from error


def _found(root: Path) -> list[str]:
    found = pipeline_names(root)
    if not found:
        raise InputError(
            f"{root}: no pipeline matches {PIPELINES}; name a file, or start with `omni-ci init`"
        )
    return found


def _loaded(names: Sequence[str], tree: Tree, mirrors: Mirrors) -> list[PipelineFile]:
    """Load every file, and report the problems of all of them at once."""
    pipelines: list[PipelineFile] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        text = tree.read(name)
        if text is None:
            near = did_you_mean(name, pipeline_names(tree.root))
            raise InputError(f"{name}: there is no such pipeline file{near}")
        try:
            pipelines.append(mirrors.load(text, name))
        except LoadError as error:
            problems += error.problems
    if problems:
        raise LoadError(problems)
    return pipelines


def _fitted(
    pipelines: Iterable[PipelineFile], configurations: Mapping[str, Configuration], mirrors: Mirrors
) -> tuple[Fitted, ...]:
    """Return every pipeline with its steps' hardware; a missing preset is an error whatever runs."""
    fits: list[Fitted] = []
    problems: list[Problem] = []
    for pipeline in pipelines:
        configuration = configurations[pipeline.name]
        try:
            fits.append(mirrors.fit(pipeline, configuration))
        except LoadError as error:
            problems += error.problems
            continue
        _require_presets(fits[-1].pipeline, configuration)
        compose(fits[-1].pipeline, configuration.equipment(pipeline.name))
    if problems:
        raise LoadError(problems)
    return tuple(fits)


def _require_presets(pipeline: PipelineFile, configuration: Configuration) -> None:
    """Raise InputError naming every step whose preset does not exist."""
    missing: list[str] = []
    for _, leaf in pipeline.leaves():
        name = leaf.mirror_hardwares if isinstance(leaf, Step) else None
        if name is None or configuration.presets.get(name) is not None:
            continue
        try:
            configuration.presets.find(name, at=f"{place(leaf.where)}: step {leaf.label or leaf.ident!r}")
        except InputError as error:
            missing.append(str(error))
    if missing:
        raise InputError("\n".join(missing))


def _main_branch(configurations: Mapping[str, Configuration]) -> str:
    branches = {one.policy.main_branch: name for name, one in configurations.items()}
    if len(branches) > 1:
        (one, by_one), (other, by_other) = list(branches.items())[:2]
        what = f"main_branch is {one!r} for {by_one} and {other!r} for {by_other}"
        raise InputError(f"{what}; plan them one at a time, or name the commits with --base and --head")
    return next(iter(branches))
