"""The files beside the pipelines: presets, registry, policy and templates, found and loaded from disk or a commit."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import SUFFIX, PodRules, Pods, package_templates, template_folder
from omni_ci.hardware.presets import Presets, load_presets
from omni_ci.policy import Policy, default_policy, load_policy
from omni_ci.repository.places import FOLDER
from omni_ci.yaml.registry import NO_REGISTRY, Registry, load_registry
from omni_hardware.errors import InputError
from omni_hardware.vocabulary import Vocabulary


class ConfigKind(StrEnum):
    """A file that takes part in rendering."""

    PRESETS = "presets"
    TEMPLATE = "template"
    REGISTRY = "registry"
    POLICY = "policy"


TEMPLATES = f"{FOLDER}/templates"
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
    """Everything loaded. *sources* maps the repository's files among it to what they are, *texts* to their text."""

    presets: Presets
    registry: Registry
    policy: Policy
    pods: Pods
    sources: Mapping[str, ConfigKind]
    texts: Mapping[str, str]
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

    def equipment(self, file: str) -> Equipment:
        """Return what renders the pipeline *file*; its folder names the platform."""
        folder = posixpath.basename(posixpath.dirname(file))
        return Equipment(presets=self.presets, pods=self.pods, platform=self.policy.platforms.get(folder))


def load_configuration(
    files: Files,
    pipelines: Iterable[str],
    *,
    vocabulary: Vocabulary,
    given: Mapping[ConfigKind, str] | None = None,
) -> Configuration:
    """Return what the *pipelines* (paths) are rendered with; *given* names files (for templates a folder) instead of
    searching for them.

    Searched: beside the pipeline, in its ../common/, in .buildkite/. Without presets there are none, without a
    registry there are no keys, without a policy the package's holds. Raises InputError for a file that cannot be
    loaded, does not exist though given, or differs between the pipelines.
    """
    paths = tuple(pipelines)
    texts: dict[str, str] = {}
    sources: dict[str, ConfigKind] = {}

    def text_of(kind: ConfigKind) -> tuple[str, str] | None:
        path = _find(files, paths, kind, (given or {}).get(kind))
        if path is None:
            return None
        text = files.read(path)
        assert text is not None, "the search looked"
        texts[path], sources[path] = text, kind
        return path, text

    policy_file = text_of(ConfigKind.POLICY)
    policy = load_policy(policy_file[1], name=policy_file[0]) if policy_file else default_policy()
    presets_file, registry_file = text_of(ConfigKind.PRESETS), text_of(ConfigKind.REGISTRY)
    templates = dict(_templates(files, texts, sources, given=(given or {}).get(ConfigKind.TEMPLATE)))
    return Configuration(
        presets=load_presets(presets_file[1], name=presets_file[0], vocabulary=vocabulary)
        if presets_file
        else Presets(file=f"{FOLDER}/{NAMES[ConfigKind.PRESETS][0]} (which does not exist)", by_name={}),
        registry=load_registry(registry_file[1], name=registry_file[0]) if registry_file else NO_REGISTRY,
        policy=policy,
        pods=Pods(templates, _rules(policy)),
        sources=sources,
        texts=texts,
        unplaced=tuple(_unplaced(paths, policy)),
    )


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


def _templates(
    files: Files, texts: dict[str, str], sources: dict[str, ConfigKind], *, given: str | None
) -> Iterator[tuple[str, str]]:
    """Yield the package's templates, then the repository's, which override them by name."""
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
        text = files.read(path)
        if text is not None:
            texts[path], sources[path] = text, ConfigKind.TEMPLATE
            yield posixpath.basename(path).removesuffix(SUFFIX), text
