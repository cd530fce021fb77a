"""Everything a plan is made from, read: pipelines with their hardware, configuration, a stored selection, minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omni_ci.configuration import ConfigKind, Configuration, Configurations, Files
from omni_ci.hardware.inference import Fitted, require_presets
from omni_ci.rendering.steps import compose
from omni_ci.repository.changes import Build, ChangeSet, changed_files, listed_changes
from omni_ci.repository.places import Tree
from omni_ci.repository.roots import named_from_root, repository_root
from omni_ci.selection.asking import Asked
from omni_ci.selection.costs import DEFAULT as DURATIONS
from omni_ci.selection.costs import Durations, load_durations
from omni_ci.selection.judging import Mode
from omni_ci.selection.mirrors import Mirrors
from omni_ci.selection.origin import Origin, origin_of
from omni_ci.selection.pipelines import each, read_pipeline, required_names
from omni_ci.yaml.model import PipelineFile
from omni_hardware.errors import InputError, did_you_mean

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
    names = [reader.name(file) for file in asked.files] or list(stored) or required_names(tree)
    if missing := [name for name in names if replay and name not in stored]:
        hint = did_you_mean(missing[0], stored)
        raise InputError(f"{asked.stored} has no step of {missing[0]}{hint}")
    mirrors = Mirrors.of(environ)
    pipelines = each(partial(read_pipeline, tree), dict.fromkeys(names))
    given = {kind: reader.name(path) for kind, path in asked.given.items()}
    origin = origin_of(
        tree,
        asked=asked.config_from,
        environ=environ,
        find=lambda: reader.base(replay, lambda: configurations_of(tree, names, given=given)),
    )
    with _explained(origin):
        configurations = configurations_of(origin.files, names, given=given, tests=origin.tests)
        fits = each(partial(_fitted, configurations, mirrors), pipelines)
    return Inputs(
        asked=asked,
        tree=tree,
        mirrors=mirrors,
        fits=tuple(fits),
        configurations=configurations,
        given=given,
        origin=origin,
        changes=replay.changes() if replay else reader.changes(configurations, origin),
        replay=replay,
        durations=reader.durations(),
    )


def configurations_of(
    files: Files,
    names: Iterable[str],
    *,
    given: Mapping[ConfigKind, str] | None = None,
    tests: Files | None = None,
) -> dict[str, Configuration]:
    """Return what each pipeline is rendered with; those of one folder share it. Raises InputError."""
    configurations = Configurations(files, given=given, tests=tests)
    return {name: configurations.of(name) for name in names}


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


def _fitted(configurations: Mapping[str, Configuration], mirrors: Mirrors, pipeline: PipelineFile) -> Fitted:
    """Return the pipeline with its steps' hardware; a missing preset is an error whatever runs."""
    configuration = configurations[pipeline.name]
    fit = mirrors.fit(pipeline, configuration)
    require_presets(fit.pipeline, configuration.presets)
    compose(fit.pipeline, configuration.equipment(pipeline.name))
    return fit


def _main_branch(configurations: Mapping[str, Configuration]) -> str:
    branches = {one.policy.main_branch: name for name, one in configurations.items()}
    if len(branches) > 1:
        (one, by_one), (other, by_other) = list(branches.items())[:2]
        what = f"main_branch is {one!r} for {by_one} and {other!r} for {by_other}"
        raise InputError(f"{what}; plan them one at a time, or name the commits with --base and --head")
    return next(iter(branches))
