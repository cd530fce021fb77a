"""The file that pytest reads its settings from, for a folder that it is started in, and what that file says."""

from __future__ import annotations

import configparser
import posixpath
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_hardware.errors import OmniError

_TEST_FILES = ("test_*.py", "*_test.py")


# Long options that take no value, so that a path behind one is a path to tests; behind any other it may be a value.
FLAGS = frozenset(
    [
        "--strict",
        "--strict-markers",
        "--strict-config",
        "--omni-strict",
        "--exitfirst",
        "--last-failed",
        "--lf",
        "--failed-first",
        "--ff",
        "--new-first",
        "--nf",
        "--stepwise",
        "--sw",
        "--stepwise-skip",
        "--sw-skip",
        "--verbose",
        "--quiet",
        "--no-header",
        "--no-summary",
        "--showlocals",
        "--no-showlocals",
        "--runxfail",
        "--cache-clear",
        "--disable-warnings",
        "--disable-pytest-warnings",
        "--collect-only",
        "--co",
        "--doctest-modules",
        "--continue-on-collection-errors",
        "--keep-duplicates",
        "--noconftest",
        "--setup-only",
        "--setup-show",
        "--setup-plan",
        "--pdb",
        "--trace",
        "--full-trace",
        "--no-cov",
        "--cov-append",
        "--cov-branch",
        "--forked",
        "--looponfail",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What pytest is told by *file*, a path from the root; by none where that is None."""

    file: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str | None:
        """The folder of the file: pytest's root."""
        return None if self.file is None else posixpath.dirname(self.file)

    @property
    def testpaths(self) -> tuple[str, ...]:
        """What a run without paths collects, where it is started beside the file; patterns too."""
        named = (posixpath.normpath(path) for path in _words(self.values.get("testpaths")))
        return tuple("" if path == "." else path for path in named)

    @property
    def test_files(self) -> tuple[str, ...]:
        """Patterns of the names of test files."""
        return tuple(_words(self.values.get("python_files"))) or _TEST_FILES

    @property
    def addopts(self) -> tuple[str, ...]:
        """The words that stand before those of every command line."""
        return tuple(_words(self.values.get("addopts")))

    def differs(self, before: Settings) -> tuple[str, ...]:
        """Return the settings that are not as they were *before*; a marker more changes no test."""
        names = sorted({*self.values, *before.values} - {"markers"})
        found = [name for name in names if self.values.get(name) != before.values.get(name)]
        gone = _lines(before.values.get("markers")) - _lines(self.values.get("markers"))
        return (*found, *(["markers"] if gone else []))


class PytestSettings:
    """The settings of a repository by the folder that pytest is started in; files are read when they are asked for."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self._found: dict[str, Settings] = {}

    def of(self, folder: str) -> Settings:
        """Return what counts in *folder*: the nearest file at or above it that has settings of pytest."""
        if folder not in self._found:
            self._found[folder] = self._nearest(folder)
        return self._found[folder]

    def _nearest(self, folder: str) -> Settings:
        for name, said in _SAID.items():
            path = posixpath.join(folder, name)
            text = self._text(path)
            if text is not None and (values := _parsed(said, text)) is not None:
                return Settings(file=path, values=values)
        return self.of(posixpath.dirname(folder)) if folder else Settings()

    def _text(self, path: str) -> str | None:
        try:
            return self._read(path)
        except OmniError:
            return None  # a folder, or a link that leads nowhere: no file to pytest


def settings_files(folder: str) -> Iterator[str]:
    """Yield the paths that pytest, started in *folder*, may read its settings from, those that count first."""
    yield from (posixpath.join(folder, name) for name in _SAID)
    if folder:
        yield from settings_files(posixpath.dirname(folder))


def named_files(words: Sequence[str]) -> Iterator[str]:
    """Yield the files that *words* of pytest name as its settings: `-c FILE`, `-cFILE`, `--config-file=FILE`."""
    for number, word in enumerate(words):
        if word in {"-c", "--config-file"}:
            yield from words[number + 1 : number + 2]
        elif word.startswith("--config-file="):
            yield word.partition("=")[2]
        elif word.startswith("-c") and not word.startswith("--"):
            yield word[2:]


def _pytest_toml(text: str) -> Mapping[str, Any]:
    table = tomllib.loads(text).get("pytest")
    return table if isinstance(table, Mapping) else {}


def _pyproject(text: str) -> Mapping[str, Any] | None:
    tool = tomllib.loads(text).get("tool")
    table = tool.get("pytest") if isinstance(tool, Mapping) else None
    if not isinstance(table, Mapping):
        return None
    ini = table.get("ini_options")
    # pytest 9 reads [tool.pytest] itself
    return ini if isinstance(ini, Mapping) else {**table} or None


def _section(name: str, *, is_always: bool = False) -> Callable[[str], Mapping[str, Any] | None]:
    def said(text: str) -> Mapping[str, Any] | None:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read_string(text)
        if parser.has_section(name):
            return dict(parser.items(name))
        return {} if is_always else None

    return said


# pytest's own order, in each folder; a file of its own counts even where it says nothing.
_SAID: Mapping[str, Callable[[str], Mapping[str, Any] | None]] = {
    "pytest.toml": _pytest_toml,
    ".pytest.toml": _pytest_toml,
    "pytest.ini": _section("pytest", is_always=True),
    ".pytest.ini": _section("pytest", is_always=True),
    "pyproject.toml": _pyproject,
    "tox.ini": _section("pytest"),
    "setup.cfg": _section("tool:pytest"),
}

SETTINGS_FILES = frozenset(_SAID)
NO_SETTINGS = PytestSettings(lambda _: None)


def _parsed(said: Callable[[str], Mapping[str, Any] | None], text: str) -> Mapping[str, Any] | None:
    try:
        return said(text)
    except (tomllib.TOMLDecodeError, configparser.Error, RecursionError):
        return None


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            return value.split()
    return [str(item) for item in value] if isinstance(value, list) else []


def _lines(value: Any) -> set[str]:
    return {*value.splitlines()} if isinstance(value, str) else {*map(str, value or ())}
