"""The files beside the pipelines: presets, registry, policy, templates and words, found and loaded from disk or a commit."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import SUFFIX, PodRules, Pods, package_templates, template_folder
from omni_ci.hardware.presets import Presets, load_presets
from omni_ci.policy import Policy, default_policy, load_policy
from omni_ci.repository.places import FOLDER
from omni_ci.yaml.registry import NO_REGISTRY, Registry, load_registry
from omni_hardware.errors import InputError
from omni_hardware.own_markers import own_markers
from omni_hardware.project import vocabulary_in
from omni_hardware.vocabulary import DEFAULT, Vocabulary


class ConfigKind(StrEnum):
    """A file that takes part in rendering."""

    PRESETS = "presets"
    TEMPLATE = "template"
    REGISTRY = "registry"
    POLICY = "policy"
    VOCABULARY = "vocabulary"


TEMPLATES = f"{FOLDER}/templates"
PYPROJECT = "pyproject.toml"
# The second name of each is the field's older one.
NAMES: Mapping[ConfigKind, tuple[str, ...]] = {
    ConfigKind.PRESETS: ("presets.yml", "ci_mirror_hardwares.yml"),
    ConfigKind.REGISTRY: ("dependencies.yml", "ci_source_file_dependencies.yml"),
    ConfigKind.POLICY: ("policy.yml",),
}
FLAGS = {
    ConfigKind.PRESETS: "--presets",
    ConfigKind.REGISTRY: "--dependencies",
    ConfigKind.POLICY: "--policy",
    ConfigKind.TEMPLATE: "--templates",
}


class Files(Protocol):
    """The files of a working tree or of a commit, by their path from the repository's root."""

    @property
    def root(self) -> Path:
        """Return the root of the working tree."""

    def read(self, path: str) -> str | None:
        """Return the text of *path*, or None where there is no such file."""

    def listed(self, folder: str) -> Sequence[str]:
        """Return the paths of the files directly in *folder*, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Everything loaded. *sources* maps the repository's files among it to what they are, *texts* to their text.

    *vocabulary* is the language with the project's own words, *markers* what its tests may be selected by beyond it.
    """

    presets: Presets
    registry: Registry
    policy: Policy
    pods: Pods
    sources: Mapping[str, ConfigKind]
    texts: Mapping[str, str]
    vocabulary: Vocabulary
    markers: tuple[str, ...]
    unplaced: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of another dialect should know, and the folders whose platform nobody does (*unplaced*)."""
        return (*self.presets.notices, *map(self._unplaced, self.unplaced))

    def _unplaced(self, folder: str) -> str:
        name, known = posixpath.basename(folder), ", ".join(self.policy.platforms)
        return (
            f"{folder}/: {self.policy.where.file} has no platform whose folder is {name!r} (it has {known}), so that "
            f"presets of any platform are taken; add `platforms: {{{name}: …}}` to {FOLDER}/policy.yml, such as "
            f"{name}: cuda"
        )

    def reads_like(self, other: Configuration) -> bool:
        """Return whether a pipeline's text means the same with *other*."""
        mine, theirs = ((one.texts, one.vocabulary, one.markers) for one in (self, other))
        return mine == theirs

    def equipment(self, file: str) -> Equipment:
        """Return what renders the pipeline *file*; its folder names the platform."""
        folder = posixpath.basename(posixpath.dirname(file))
        return Equipment(presets=self.presets, pods=self.pods, platform=self.policy.platforms.get(folder))


def load_configuration(
    files: Files,
    pipelines: Iterable[str],
    *,
    given: Mapping[ConfigKind, str] | None = None,
    tests: Files | None = None,
) -> Configuration:
    """Return what the *pipelines* (paths) are rendered with; *given* names files (for templates a folder) instead of
    searching for them.

    Searched: beside the pipeline, in its ../common/, in .buildkite/. Without presets there are none, without a
    registry there are no keys, without a policy the package's holds. *tests* are the files that the pipelines and
    their tests are of, where those are others. Raises InputError for a file that cannot be loaded, does not exist
    though given, or differs between the pipelines.
    """
    found = _Search(files, tuple(pipelines), given or {})
    vocabulary = vocabulary_in(files.read(PYPROJECT), source=PYPROJECT)
    if vocabulary != DEFAULT:
        found.sources[PYPROJECT] = ConfigKind.VOCABULARY
    policy_file = found.text_of(ConfigKind.POLICY)
    policy = load_policy(policy_file[1], name=policy_file[0]) if policy_file else default_policy()
    presets_file, registry_file = found.text_of(ConfigKind.PRESETS), found.text_of(ConfigKind.REGISTRY)
    templates = dict(_templates(found))
    return Configuration(
        presets=load_presets(presets_file[1], name=presets_file[0], vocabulary=vocabulary)
        if presets_file
        else Presets(file=f"{FOLDER}/{NAMES[ConfigKind.PRESETS][0]} (which does not exist)", by_name={}),
        registry=load_registry(registry_file[1], name=registry_file[0]) if registry_file else NO_REGISTRY,
        policy=policy,
        pods=Pods(templates, _rules(policy)),
        sources=found.sources,
        texts=found.texts,
        vocabulary=vocabulary,
        markers=own_markers(files.read) if tests is None else _words(tests),
        unplaced=tuple(_unplaced(found.pipelines, policy)),
    )


class Configurations:
    """What pipelines are rendered with; those of one folder share it. See `load_configuration`."""

    def __init__(
        self,
        files: Files,
        *,
        given: Mapping[ConfigKind, str] | None = None,
        tests: Files | None = None,
    ) -> None:
        self._load = partial(load_configuration, files, given=given, tests=tests)
        self._by_folder: dict[str, Configuration] = {}

    def of(self, name: str) -> Configuration:
        """Return that of the pipeline *name*. Raises InputError."""
        folder = posixpath.dirname(name)
        if folder not in self._by_folder:
            self._by_folder[folder] = self._load([name])
        return self._by_folder[folder]


@dataclass(frozen=True, slots=True)
class _Search:
    """Where to look, and what has been found there."""

    files: Files
    pipelines: tuple[str, ...]
    given: Mapping[ConfigKind, str]
    texts: dict[str, str] = field(default_factory=dict)
    sources: dict[str, ConfigKind] = field(default_factory=dict)

    def text_of(self, kind: ConfigKind) -> tuple[str, str] | None:
        """Return the path and the text of the file of *kind*; None where there is none."""
        path = _find(self.files, self.pipelines, kind, self.given.get(kind))
        return None if path is None else (path, self.took(path, kind))

    def took(self, path: str, kind: ConfigKind) -> str:
        """Return the text of *path*, which is there."""
        text = self.files.read(path)
        assert text is not None, "the search looked"
        self.texts[path], self.sources[path] = text, kind
        return text


def _words(tests: Files) -> tuple[str, ...]:
    """Return what tests of another side may be selected by: its markers and its own words, but for its hardware."""
    own = vocabulary_in(tests.read(PYPROJECT), source=PYPROJECT)
    return (*own_markers(tests.read), *own.levels, *own.selection, *own.topics)


def _unplaced(pipelines: Iterable[str], policy: Policy) -> Iterator[str]:
    """Yield the folders below .buildkite/ that are no platform's; a file elsewhere was placed by whoever named it."""
    folders = dict.fromkeys(map(posixpath.dirname, pipelines))
    yield from (
        folder
        for folder in folders
        if posixpath.dirname(folder) == FOLDER and posixpath.basename(folder) not in policy.platforms
    )


def _rules(policy: Policy) -> PodRules:
    rules = [rule.model_dump(exclude_none=True) for rule in policy.retry.infra]
    return PodRules(secrets=policy.pods.secrets, infra_retry=rules)


def _find(files: Files, pipelines: Sequence[str], kind: ConfigKind, given: str | None) -> str | None:
    if given is not None:
        if files.read(given) is None:
            raise InputError(f"{FLAGS[kind]} {given}: there is no such file")
        return given
    found = {path: pipeline for pipeline in pipelines if (path := _beside(files, pipeline, kind))}
    if len(found) > 1:
        (one, by_one), (other, by_other) = list(found.items())[:2]
        raise InputError(
            f"{by_one} uses {one}, and {by_other} uses {other}; plan them one at a time or pass {FLAGS[kind]}"
        )
    return next(iter(found), None)


def _beside(files: Files, pipeline: str, kind: ConfigKind) -> str | None:
    folder = posixpath.dirname(pipeline)
    folders = (folder, posixpath.join(posixpath.dirname(folder), "common"), FOLDER)
    return next(
        (
            path
            for name in NAMES[kind]
            for folder in dict.fromkeys(folders)
            if files.read(path := posixpath.join(folder, name)) is not None
        ),
        None,
    )


def _templates(found: _Search) -> Iterator[tuple[str, str]]:
    """Yield the package's templates, then the repository's, which override them by name."""
    files, given = found.files, found.given.get(ConfigKind.TEMPLATE)
    folders = [given or TEMPLATES]
    if given is not None and not any(path.endswith(SUFFIX) for path in files.listed(given)):
        raise InputError(f"{FLAGS[ConfigKind.TEMPLATE]} {given}: there is no *{SUFFIX} in such a folder")
    package = template_folder()
    if package.is_relative_to(files.root):
        # the package is part of this repository: its templates have a history too
        folders = [package.relative_to(files.root).as_posix(), *folders]
    else:
        yield from package_templates().items()
    for path in (path for folder in folders for path in files.listed(folder) if path.endswith(SUFFIX)):
        if files.read(path) is not None:
            yield posixpath.basename(path).removesuffix(SUFFIX), found.took(path, ConfigKind.TEMPLATE)
