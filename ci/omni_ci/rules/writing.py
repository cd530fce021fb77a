"""The files that a step's commands write, as far as the commands name them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from omni_ci.repository.patterns import matches
from omni_ci.rules.jobs import Job
from omni_ci.shell.runs import Command

_REPORTS = ("--junitxml", "--junit-xml", "--omni-report")
_XML = "coverage.xml"


@dataclass(frozen=True, slots=True)
class Written:
    """A file, and the folder it is written in: "" is where the commands start."""

    name: str
    folder: str

    @property
    def path(self) -> str:
        """The file as seen from where the commands start."""
        return posixpath.normpath(posixpath.join(self.folder, self.name))


def written(job: Job) -> Iterator[Written]:
    """Yield what the commands write by an option, by `tee`, or through a redirection."""
    for command in job.script.commands:
        for name in (*_reports(command), *_streams(command)):
            if name and not name.startswith("/dev/"):
                yield Written(name, command.folder)


def coverage_reports(job: Job) -> Iterator[Written]:
    """Yield the XML reports that plain pytest runs write."""
    for run in job.runs:
        if not run.measures_coverage and any(word.startswith("--cov") for word in run.words):
            yield from (Written(name, run.folder) for name in _xml(run.words))


def is_declared(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether one of the artifact *patterns* takes *path*."""
    return path in patterns or matches(path, patterns)


def _reports(command: Command) -> Iterator[str]:
    words = iter(command.words)
    for word in words:
        name, is_joined, value = word.partition("=")
        if name in _REPORTS:
            yield value if is_joined else next(words, "")
    yield from _xml(command.words)


def _xml(words: tuple[str, ...]) -> Iterator[str]:
    values = (
        word.partition("=")[2] or following
        for word, following in pairwise((*words, ""))
        if word.partition("=")[0] == "--cov-report"
    )
    for value in values:
        kind, _, name = value.partition(":")
        if kind == "xml":
            yield name or _XML


def _streams(command: Command) -> Iterator[str]:
    if command.name == "tee":
        yield from (word for word in command.words[1:] if not word.startswith("-"))
    yield from (
        target for operator, target in command.redirects if operator.rstrip("|").endswith((">", ">>"))
    )
