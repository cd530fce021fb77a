"""What the rules are asked about: a repository with its pipelines, loaded and rendered as far as they can be."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, TypeVar

from omni_ci.configuration import Configuration, Files
from omni_ci.hardware.chips import chips_of
from omni_ci.hardware.equipping import equipped
from omni_ci.output.neighbours import step_keys
from omni_ci.repository.imports import ImportGraph, source_roots
from omni_ci.repository.named_tests import conftests_above
from omni_ci.repository.places import FOLDER
from omni_ci.repository.pytest_settings import PytestSettings
from omni_ci.repository.watching import NO_LINKS, Links, PathIndex
from omni_ci.rules.declared import READ_AT_MOST, DeclaredTest, Unread, declared_tests, parsed
from omni_ci.rules.jobs import Job
from omni_ci.rules.paths import TestPaths
from omni_ci.selection.watches import watch_of
from omni_ci.shell.invocations import launched
from omni_ci.shell.runs import PytestRun, pytest_runs
from omni_ci.yaml.document import Problem
from omni_ci.yaml.model import Group, PipelineFile, Step
from omni_ci.yaml.reading import read
from omni_hardware.errors import OmniError, did_you_mean
from omni_hardware.vocabulary import DEFAULT, Vocabulary

_Answer = TypeVar("_Answer")
_COMMENT = re.compile(r"(?:^|\s)#(.*)$")


@dataclass(kw_only=True)
class Context:
    """A repository and its pipelines; everything else is worked out when a rule first asks for it.

    *names* are the paths of its files. *judged* are the pipelines that findings are wanted for; the others tell what
    else runs. *refused* are the steps whose hardware could not be read from their marks, by pipeline;
    *elsewhere* the keys of steps that live only in Buildkite.
    """

    files: Files
    names: frozenset[str]
    pipelines: tuple[PipelineFile, ...]
    configurations: Mapping[str, Configuration]
    judged: Collection[str]
    vocabulary: Vocabulary = DEFAULT
    links: Links = NO_LINKS
    elsewhere: frozenset[str] = frozenset()
    today: date = field(default_factory=date.today)
    refused: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    _texts: dict[str, str | None] = field(default_factory=dict)
    _unread: dict[str, Unread] = field(default_factory=dict)
    _tests: dict[str, tuple[DeclaredTest, ...] | None] = field(default_factory=dict)
    _answers: dict[Hashable, Any] = field(default_factory=dict)

    @cached_property
    def every_job(self) -> tuple[Job, ...]:
        """Every command step of every pipeline."""
        return tuple(job for pipeline in self.pipelines for job in self._jobs(pipeline))

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """The command steps that findings are wanted for."""
        return tuple(job for job in self.every_job if job.pipeline.name in self.judged)

    @cached_property
    def known_keys(self) -> frozenset[str]:
        """The keys of the steps in every file under .buildkite/ that holds some, pipelines of another kind included."""
        own = (part for one in self.pipelines for pair in one.leaves() for part in pair if part is not None)
        files = (
            name for name in self.names if name.startswith(f"{FOLDER}/") and name.endswith((".yml", ".yaml"))
        )
        there = (key for name in files for key in step_keys(read(self.read(name) or "", name)[0]))
        return self.elsewhere.union(there, (part.key for part in own if part.key))

    @cached_property
    def index(self) -> PathIndex:
        """The files of the repository, under every name they have."""
        return PathIndex(self.links.names(self.names))

    @cached_property
    def pyproject(self) -> Mapping[str, Any]:
        """What pyproject.toml says; nothing where it is missing or no TOML."""
        try:
            return tomllib.loads(self.read("pyproject.toml") or "")
        except tomllib.TOMLDecodeError:
            return {}

    def once(self, question: Hashable, ask: Callable[[], _Answer]) -> _Answer:
        """Return what *ask* returned the first time that *question* was put: steps share tests, and rules steps."""
        if question not in self._answers:
            self._answers[question] = ask()
        answer: _Answer = self._answers[question]
        return answer

    def setting(self, *path: str) -> Any:
        """Return what pyproject.toml has under *path*, None where it has nothing."""
        found: Any = self.pyproject
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    @cached_property
    def imports(self) -> ImportGraph:
        """The import statements of the repository."""
        return ImportGraph(self.names, self._text_to_parse, source_roots(self.pyproject))

    @cached_property
    def test_paths(self) -> TestPaths:
        """Which test files the paths of a pytest run reach."""
        settings = PytestSettings(self.read)
        return TestPaths(names=self.names, index=self.index, links=self.links, settings=settings)

    def configuration(self, job: Job) -> Configuration:
        """Return what *job* is rendered with."""
        return self.configurations[job.pipeline.name]

    def read(self, path: str) -> str | None:
        """Return the text of a file of the repository, None where there is none, or Python that cannot be read."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if path in self.names else None
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        try:
            return self.files.read(path)
        except OmniError as error:
            if not path.endswith(".py"):
                raise
            self._unread[path] = Unread(str(error).removeprefix(f"{path}: "))
            return None

    def unread(self, path: str) -> Unread | None:
        """Return why nothing can be said of the Python file *path*, None where something can."""
        if (text := self.read(path)) is None:
            return self._unread.get(path)
        tree = parsed(text) if self.tests(path) is None else None
        return tree if isinstance(tree, Unread) else None

    def _text_to_parse(self, path: str) -> str | None:
        text = self.read(path)
        return None if text is None or len(text) > READ_AT_MOST else text

    def tests(self, path: str) -> tuple[DeclaredTest, ...] | None:
        """Return the tests that *path* declares, None where it cannot be read."""
        if path not in self._tests:
            text = self.read(path)
            self._tests[path] = None if text is None else declared_tests(text, self.vocabulary)
        return self._tests[path]

    def alike(self, path: str) -> tuple[tuple[DeclaredTest, ...], ...]:
        """Return the tests that *path* declares, those that are alike in marks and needs together."""
        return self.once((Context.alike, path), lambda: _alike(self.tests(path) or ()))

    def comments(self, job: Job) -> str:
        """Return the comments above and in a step, up to the next one's."""
        lines = (self.files.read(job.pipeline.name) or "").splitlines()
        starts = sorted({leaf.where.line for _, leaf in job.pipeline.leaves()} | {len(lines) + 1})
        first = job.step.where.line
        last = next((start for start in starts if start > first), len(lines) + 1)
        first, last = (_above_comments(lines, line) for line in (first, last))
        return "\n".join(found[1] for line in lines[first - 1 : last - 1] if (found := _COMMENT.search(line)))

    def conftests(self, tests: Iterable[str]) -> frozenset[str]:
        """Return the conftests above *tests*."""
        return frozenset(one for path in tests for one in conftests_above(path) if one in self.names)

    def all_runs(self, job: Job) -> tuple[PytestRun, ...]:
        """Return what *job* gives pytest to run, in the shell scripts of the repository that it calls as well."""
        words = (word.removeprefix("./") for one in job.script.commands for word in one.words)
        scripts = {word for word in words if word.endswith(".sh") and word in self.names}
        called = (run for script in sorted(scripts) for run in pytest_runs(self.read(script) or ""))
        return (*job.runs, *launched(job.script.commands), *called)

    def adds_marks(self, path: str) -> bool:
        """Return whether a conftest above *path* may put marks on its tests."""
        folder = path.rpartition("/")[0]
        adds = "add_marker" in (self.read(f"{folder}/conftest.py".lstrip("/")) or "")
        return adds or (
            bool(folder) and self.once((Context.adds_marks, folder), lambda: self.adds_marks(folder))
        )

    def exists(self, path: str) -> bool:
        """Return whether *path* is a file or folder here, or inside a submodule."""
        return self.index.holds(path) or self.links.submodule_of(path) is not None

    def nearest(self, path: str) -> str:
        """Return a hint at the path that *path* may have become: moved, or spelled otherwise; a folder is a folder."""
        bare = path.rstrip("/")
        folder, _, name = bare.rpartition("/")
        valid = self._folders if path.endswith("/") else self._folders_and_files
        moved = [one for one in valid if one.rstrip("/").rpartition("/")[2] == name]
        if moved:
            # of several the one that shares most with the old place
            return f" (did you mean {max(moved, key=lambda one: _shared(one, bare))!r}?)"
        while folder and not self.index.holds(folder):
            folder = folder.rpartition("/")[0]
        return did_you_mean(path, [one for one in valid if one.rstrip("/").rpartition("/")[0] == folder])

    @cached_property
    def _folders(self) -> tuple[str, ...]:
        return tuple(sorted({f"{folder}/" for path in self.names for folder in _above(path)}))

    @cached_property
    def _folders_and_files(self) -> tuple[str, ...]:
        return tuple(sorted((*self.names, *self._folders)))

    def _jobs(self, pipeline: PipelineFile) -> Iterator[Job]:
        for group, leaf in pipeline.leaves():
            if isinstance(leaf, Step):
                yield self._job(pipeline, group, leaf)

    def _job(self, pipeline: PipelineFile, group: Group | None, step: Step) -> Job:
        configuration = self.configurations[pipeline.name]
        equipment = configuration.equipment(pipeline.name)
        rendered, problem = step.written(), None
        try:
            rendered = equipped(step, equipment, file_env=pipeline.env or ())
        except OmniError as error:
            problem = str(error)
        preset = configuration.presets.get(step.mirror_hardwares) if step.mirror_hardwares else None
        chip = next(
            (
                one
                for one in chips_of(configuration.presets, self.vocabulary)
                if preset and preset.name in one.by_cards.values()
            ),
            None,
        )
        return Job(
            pipeline=pipeline,
            group=group,
            step=step,
            preset=preset,
            platform=(preset.platform if preset else None)
            or (chip.platform if chip else None)
            or (equipment.platform if preset else None),
            sku=(getattr(preset.row, "sku", None) if preset else None) or (chip.sku if chip else None),
            watch=watch_of(group, step, configuration.registry),
            rendered=rendered,
            problem=problem,
        )


def _alike(tests: Iterable[DeclaredTest]) -> tuple[tuple[DeclaredTest, ...], ...]:
    kinds: dict[Hashable, list[DeclaredTest]] = {}
    for test in tests:
        kinds.setdefault((test.cards, test.variants), []).append(test)
    return tuple(map(tuple, kinds.values()))


def _above_comments(lines: Sequence[str], line: int) -> int:
    """Return the line at which the comments directly above *line* begin."""
    while line > 1 and lines[line - 2].lstrip().startswith("#"):
        line -= 1
    return line


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _shared(one: str, other: str) -> tuple[int, int]:
    """Return how many folders two paths share, from the root and from the end."""
    ours, theirs = one.rstrip("/").split("/"), other.split("/")
    return _common(ours, theirs), _common(ours[::-1], theirs[::-1])


def _common(ours: list[str], theirs: list[str]) -> int:
    pairs = list(zip(ours, theirs, strict=False))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(pairs))
