"""Which test files a pytest run reaches, by its paths alone."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from omni_ci.repository.patterns import matching
from omni_ci.repository.watching import PathIndex
from omni_ci.shell.runs import PytestRun

_PATTERNS = ("test_*.py", "*_test.py")
_UNKNOWN = re.compile(r"\$\{[^}]*\}|\$\(.*\)|\$\w+|`[^`]*`")
_WILD = re.compile(r"[*?\[{]")
_IGNORES = ("--ignore", "--ignore-glob", "--deselect")


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The test files that a run reaches, the paths of it that are not here, and whether it may reach more."""

    files: tuple[str, ...]
    missing: tuple[str, ...] = ()
    is_exact: bool = True


@dataclass(frozen=True, kw_only=True)
class TestPaths:
    """The test files of a repository: those pytest would collect from a folder."""

    __test__ = False  # not a test class, whatever its name

    index: PathIndex
    tests: tuple[str, ...]
    roots: tuple[str, ...]
    patterns: tuple[str, ...]
    _reached: dict[Hashable, Reached] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, names: Collection[str], settings: Any) -> TestPaths:
        """Return the test files among *names*, by pytest's own *settings* (`ini_options`)."""
        ini = settings if isinstance(settings, Mapping) else {}
        patterns = tuple(_words(ini.get("python_files"))) or _PATTERNS
        tests = sorted(
            name
            for name in names
            if name.endswith(".py") and any(fnmatchcase(posixpath.basename(name), one) for one in patterns)
        )
        roots = tuple(_words(ini.get("testpaths")))
        if roots:
            inside = tuple(f"{root.rstrip('/')}/" for root in roots)
            tests = [one for one in tests if one.startswith(inside)]
        return cls(
            index=PathIndex(names), tests=tuple(tests), roots=roots,
            patterns=patterns,
        )  # fmt: skip

    def of_run(self, run: PytestRun) -> Reached:
        """Return what *run* reaches: its paths, opened, without what it ignores."""
        return self.of_paths(run, run.paths)

    def of_paths(self, run: PytestRun, paths: tuple[str, ...]) -> Reached:
        """Return what *run* would reach if it had *paths* only."""
        key = (paths, run.folder, run.words, run.problem)
        found = self._reached.get(key)
        if found is None:
            found = self._reached[key] = self._of_paths(run, paths)
        return found

    def _of_paths(self, run: PytestRun, paths: tuple[str, ...]) -> Reached:
        ignored = tuple(_ignored(run))
        files: list[str] = []
        missing: list[str] = []
        unknown = run.problem is not None or run.folder.startswith(("$", "~", "/", ".."))
        here = () if run.folder else self.roots  # pytest's testpaths count where its settings lie only
        for path in paths or here or (".",):
            bare = path.split("::")[0]
            unknown = unknown or bool(_UNKNOWN.search(bare))
            if posixpath.splitext(bare)[1] not in {"", ".py"}:
                continue  # the value of an option that is not pytest's own
            full = posixpath.normpath(posixpath.join(run.folder, bare))
            hits = list(self._opened(full))
            files += hits
            if not hits and not unknown and not self.index.holds(full):
                missing.append(bare)
        kept = [one for one in dict.fromkeys(files) if not _is_ignored(one, ignored)]
        return Reached(files=tuple(kept), missing=tuple(missing), is_exact=not unknown)

    def _opened(self, path: str) -> Iterator[str]:
        if path in {"", "."}:
            yield from self.tests
        elif path in self.index:
            yield path
        elif _WILD.search(path) or _UNKNOWN.search(path):
            pattern = re.sub(r"\[[^\]]*\]", "?", _UNKNOWN.sub("**", path))
            yield from _globbed(self.tests, tuple(_braced(pattern)))
        else:
            yield from (one for one in self.index.under(f"{path}/") if self._is_test(one))

    def _is_test(self, path: str) -> bool:
        return path.endswith(".py") and any(
            fnmatchcase(posixpath.basename(path), one) for one in self.patterns
        )


@lru_cache(maxsize=256)
def _globbed(tests: tuple[str, ...], patterns: tuple[str, ...]) -> tuple[str, ...]:
    inside = [f"{pattern.rstrip('/')}/**" for pattern in patterns]
    return tuple(matching(tests, [*patterns, *inside]))


def _braced(pattern: str) -> Iterator[str]:
    """Yield what `a{b,c}` stands for."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if found is None:
        yield re.sub(r"\{[^{}]*\}", "*", pattern)
        return
    for choice in found[1].split(","):
        yield from _braced(pattern[: found.start()] + choice + pattern[found.end() :])


def _ignored(run: PytestRun) -> Iterator[str]:
    """Yield the paths that the run leaves out; a deselected node leaves its file in."""
    words = iter(run.words)
    for word in words:
        name, is_joined, value = word.partition("=")
        if name in _IGNORES:
            path = value if is_joined else next(words, "")
            if "::" not in path:
                yield posixpath.normpath(posixpath.join(run.folder, path))


def _is_ignored(path: str, ignored: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") or fnmatchcase(path, one) for one in ignored)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(item) for item in value] if isinstance(value, list) else []
