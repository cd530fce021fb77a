"""Which test files of a repository a pytest run reaches, by its paths alone."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from omni_ci.repository.named_tests import Named, Place, is_test, named_tests
from omni_ci.repository.patterns import matches
from omni_ci.repository.pytest_settings import PytestSettings
from omni_ci.repository.watching import NO_LINKS, Links, PathIndex
from omni_ci.shell.runs import PytestRun


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The test files that a run reaches, the paths of it that are not here, and whether it may reach more."""

    files: tuple[str, ...]
    missing: tuple[str, ...] = ()
    is_exact: bool = True


@dataclass(frozen=True, kw_only=True)
class TestPaths:
    """The test files of a repository: those of *names* that pytest would collect; *index* has their further names."""

    __test__ = False  # not a test class, whatever its name

    names: Collection[str]
    index: PathIndex
    settings: PytestSettings
    links: Links = NO_LINKS
    _reached: dict[Hashable, Reached] = field(default_factory=dict, compare=False)

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """The test files that pytest, started at the root, knows of: those in its `testpaths` where it has some."""
        told = self.settings.of("")
        inside = [pattern for path in told.testpaths for pattern in (path, f"{path}/**")]
        found = (name for name in self.names if is_test(name, told.test_files))
        return tuple(sorted(one for one in found if not inside or "" in inside or matches(one, inside)))

    def of_run(self, run: PytestRun) -> Reached:
        """Return what *run* reaches: its paths, opened, without what it ignores."""
        return self.of_paths(run, run.paths)

    def of_paths(self, run: PytestRun, paths: tuple[str, ...]) -> Reached:
        """Return what *run* would reach if it had *paths* only."""
        key = (paths, run.folder, run.words, run.problem)
        found = self._reached.get(key)
        if found is None:
            found = self._reached[key] = self._of_named(replace(run, paths=paths))
        return found

    def _of_named(self, run: PytestRun) -> Reached:
        named = named_tests(run, self.settings, self.index)
        files = (path for place in named.places for path in self._tests_at(place, named))
        return Reached(
            files=tuple(dict.fromkeys(path for path in files if not path.startswith(named.deselected))),
            missing=tuple(one for one in named.missing if not self._is_in_submodule(run, one)),
            is_exact=named.is_exact,
        )

    def _tests_at(self, place: Place, named: Named) -> Iterator[str]:
        """Yield the test files at *place*: one that is named, and those that pytest takes for tests."""
        patterns = named.settings.test_files
        for path in named.all(place, self.index):
            if path == place.path or is_test(path, patterns):
                yield self.links.real(path)

    def _is_in_submodule(self, run: PytestRun, path: str) -> bool:
        full = posixpath.normpath(posixpath.join(run.folder, path))
        return self.links.submodule_of(full) is not None
