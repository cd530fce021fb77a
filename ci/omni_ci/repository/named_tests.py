"""Where a pytest run takes its tests from: its paths, or without one what pytest's settings or its folder say.

The one reading of it, for the selection and the rules. What cannot be known counts for more than may be meant: a path
too many selects a step too often, a missed one never.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise, takewhile

from omni_ci.repository.patterns import literal_prefix, matching
from omni_ci.repository.pytest_settings import FLAGS, PytestSettings, Settings, named_files
from omni_ci.repository.watching import PathIndex
from omni_ci.shell.runs import Command, PytestRun, run_of

CONFTEST = "conftest.py"
_WILD = re.compile(r"[*?\[]")
_CHOICE = re.compile(r"\[[^\]]*\]")
_UNKNOWN = re.compile(r"\$\{[^}]*\}|\$\(.*\)|\$[\w@*]+|`[^`]*`")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_RANGE = re.compile(r"\{[^{},]*\.\.[^{},]*\}")
_EXPANDED_AT_MOST = 64
# Options with which pytest looks for no test.
_COLLECTS_NOTHING = frozenset(["--omni-doctor", "--version", "-V", "--help", "-h", "--markers"])
# Options with which other settings count than those of the folder, or with which a name is no path.
_ELSEWHERE = re.compile(r"-c.*|--config-file(=.*)?|--rootdir(=.*)?|--pyargs|(.*=)?testpaths=.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where tests are taken from: a file, a folder ("" is the root) or a pattern.

    said: how a change there is told. is_searched: nobody named it, so that only test files in it count. is_sure: the
    run names it, whatever else is not known.
    """

    path: str
    said: str
    is_searched: bool = False
    is_sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a run names.

    ignored: paths and patterns that it never collects; deselected: starts of the names of files that it collects and
    runs no test of. unknown: the words that may hold any path. missing: the paths as written that are not here.
    settings: what pytest is told, looked for from the folder *settings_from* upwards (None: it is no pytest).
    is_exact: False where it may run others.
    """

    places: tuple[Place, ...]
    ignored: tuple[str, ...]
    deselected: tuple[str, ...]
    unknown: tuple[str, ...]
    missing: tuple[str, ...]
    settings: Settings
    settings_from: str | None
    is_exact: bool

    def first(self, place: Place, index: PathIndex) -> str | None:
        """Return the first path of *index* at *place*, without what the run ignores."""
        if not _WILD.search(place.path) and not any(map(_WILD.search, self.ignored)):
            below = [one for one in self.ignored if one.startswith(f"{place.path}/" if place.path else "")]
            return index.first_under(place.path, below)
        named, inside = _at(place.path, index)
        left = (path for path in inside if not self._ignores(path, place.path))
        return named[0] if named else next(left, None)

    def all(self, place: Place, index: PathIndex) -> list[str]:
        """Return every path of *index* at *place*, without what the run ignores: what is named itself is not."""
        named, inside = _at(place.path, index)
        return [*named, *(path for path in inside if not self._ignores(path, place.path))]

    def _ignores(self, path: str, top: str) -> bool:
        """Return whether a pattern or path takes out *path*, or a folder of it below *top*."""
        while path and path != top:
            if any(path == one or fnmatchcase(path, one) for one in self.ignored):
                return True
            path = posixpath.dirname(path)
        return False


def named_tests(run: PytestRun, settings: PytestSettings, index: PathIndex) -> Named:
    """Return what *run* names among the files of *index*; an empty one is not known."""
    reading = _Reading(run, index)
    for word in (*run.paths, *_of_split(run)):
        reading.word(word)
    reading.places += [_named(reading.joined(path), is_sure=False) for path in named_files(run.words)]
    start = reading.settings_from() if run.words or not run.paths else None
    told = Settings() if start is None else settings.of(start)
    added = run_of(Command(words=("pytest", *told.addopts), line=0)) if told.addopts else None
    reading.given = added.words if added else ()
    for word in added.paths if added else ():
        if index.holds(reading.joined(word)):  # else the value of an option of some plugin
            reading.word(word)
    if not (run.measures_coverage or _COLLECTS_NOTHING.intersection(run.words)):
        reading.without_path(told)
    ignored, deselected = reading.left_out((*run.words, *(added.words if added else ())), told)
    return Named(
        places=tuple(dict.fromkeys(reading.places)),
        ignored=ignored,
        deselected=deselected,
        unknown=tuple(dict.fromkeys(reading.unknown)),
        missing=tuple(dict.fromkeys(reading.missing)),
        settings=told,
        settings_from=start,
        is_exact=not reading.is_guess,
    )


def first_at(path: str, index: PathIndex) -> str | None:
    """Return the first path of *index* that *path*, which may hold wildcards, is or holds."""
    if not _WILD.search(path):
        return index.first_under(path)
    named, inside = _at(path, index)
    return next(iter([*named, *inside]), None)


def conftests_above(path: str) -> Iterator[str]:
    """Yield the conftests that pytest reads for *path* beside those in it, nearest first."""
    while path:
        path = posixpath.dirname(path)
        yield posixpath.join(path, CONFTEST)


def is_test(path: str, patterns: Sequence[str]) -> bool:
    """Return whether pytest, searching a folder, takes *path* for a test file by *patterns* of names."""
    name = posixpath.basename(path)
    return name.endswith(".py") and any(fnmatchcase(name, pattern) for pattern in patterns)


class _Reading:
    """The places of a run, while its words are read."""

    def __init__(self, run: PytestRun, index: PathIndex) -> None:
        self._run, self.given = run, run.words
        self._index = index
        folder = "" if run.folder == "." else run.folder
        is_here = not folder.startswith(("/", "~", "..")) and not _UNKNOWN.search(folder)
        self._folder = folder if is_here else ""
        self.is_guess = not is_here or run.problem is not None
        self.places: list[Place] = []
        self.unknown: list[str] = []
        self.missing: list[str] = []

    def joined(self, path: str) -> str:
        """Return *path* from the root; "" is the root, one outside of the repository starts with `..`."""
        full = posixpath.normpath(posixpath.join(self._folder, path))
        return "" if full == "." else full

    def word(self, word: str) -> None:
        """Add the places that *word* may stand for."""
        bare = word.partition("::")[0]
        known = _UNKNOWN.sub("", bare).strip("/.")
        if bare.startswith("@") or (bare != known and not known and _UNKNOWN.search(bare)):
            self._any_test(bare)
            return
        if found := _UNKNOWN.search(bare):
            self.is_guess = True
            self.unknown += [bare] if found.start() == 0 else []
        for path in _expanded(bare):
            self._path(path, word)

    def _path(self, path: str, word: str) -> None:
        if path.startswith("/"):
            self._outside(path)
            return
        full = path if path.startswith("**") else self.joined(path)
        if not full:
            self.places.append(_searched("", "a test file, and its pytest is given the whole repository"))
            return
        if full.startswith(".."):
            self.is_guess = True
            return
        held = bool(_WILD.search(full)) or self._index.holds(full)
        is_value = posixpath.splitext(path)[1] not in {"", ".py"}  # of an option that is not pytest's own
        may_be_value = is_value or not (
            path.endswith(".py") or ("/" in path and not self._follows_option(word))
        )
        if held or "/" in path or not is_value:
            is_sure = (held and not self._follows_option(word)) or not may_be_value
            self.places.append(_named(full, is_sure=is_sure))
        still = posixpath.normpath(path)  # the `cd` may be read wrongly, or lead to a folder of the machine
        if not held and self._folder and not still.startswith(".."):
            self.places.append(_named(still, is_sure=False))
        if not held and not is_value and not self.is_guess:
            self.missing.append(word.partition("::")[0])

    def _follows_option(self, word: str) -> bool:
        words = self.given
        before = words[words.index(word) - 1] if word in words else ""
        return before.startswith("--") and "=" not in before and before not in FLAGS

    def _outside(self, path: str) -> None:
        """Add the path that an absolute one is in a checkout at some folder of it."""
        self.is_guess = True
        parts = path.strip("/").split("/")
        ends = ("/".join(parts[start:]) for start in range(1, len(parts)))
        self.places += [_named(end) for end in ends if self._index.holds(end)][:1]

    def _any_test(self, word: str) -> None:
        self.is_guess = True
        self.unknown.append(word)
        self.places.append(_searched("", f"a test file, and what {word} holds is not known", is_sure=False))

    def without_path(self, told: Settings) -> None:
        """Add what pytest collects where it is given no path for certain."""
        if any(place.is_sure for place in self.places):
            return
        if any(map(_ELSEWHERE.fullmatch, self._run.words)):
            self.is_guess = True
        elif told.testpaths and told.folder == self._folder:
            paths = [self.joined(path) for path in told.testpaths]
            said = f"the testpaths of {told.file}"
            self.places += [
                Place(path=path, said=f"under {path}, of {said}")
                if path
                else _searched("", f"a test file of {said}")
                for path in paths
            ]
            if any(_WILD.search(path) or self._index.holds(path) for path in paths):
                return
        if self._folder:
            self.places.append(_named(self._folder))
        else:
            self.places.append(_searched("", "a test file, and its pytest is given no path"))

    def left_out(self, words: Sequence[str], told: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is never collected, and what is collected and not run: pytest's root, not its folder, counts."""
        ignored: list[str] = []
        deselected: list[str] = []
        rest = iter(words)
        for word in rest:
            name, is_joined, value = word.partition("=")
            if name not in {"--ignore", "--ignore-glob", "--deselect"}:
                continue
            path = value if is_joined else next(rest, "")
            if not path or _UNKNOWN.search(path):
                continue
            if name == "--deselect":
                deselected += [] if "::" in path else [posixpath.join(told.folder or "", path)]
            else:
                ignored.append(self.joined(path))
        return tuple(ignored), tuple(deselected)

    def settings_from(self) -> str:
        """Return the folder from which pytest looks upwards for its settings: the one that its paths share."""
        tops = [_folder_of(place.path, self._index) for place in self.places if place.is_sure]
        return posixpath.commonpath(tops) if tops else self._folder


def _of_split(run: PytestRun) -> Iterator[str]:
    """Yield the words of a coverage split that may hold its `--offline P`, as `"$@"` does."""
    own = takewhile(lambda word: word != "--", run.words if run.measures_coverage else ())
    for before, word in pairwise(own):
        if not before.startswith("--") and _UNKNOWN.fullmatch(word):
            yield word


def _named(path: str, *, is_sure: bool = True) -> Place:
    return Place(path=path, said=f"under its test path {path}", is_sure=is_sure)


def _searched(path: str, said: str, *, is_sure: bool = True) -> Place:
    return Place(path=path, said=said, is_searched=True, is_sure=is_sure)


def _folder_of(path: str, index: PathIndex) -> str:
    """Return the folder that a place is, or lies in, up to its first wildcard."""
    literal = literal_prefix(_CHOICE.sub("?", path))
    if literal != path:
        return posixpath.dirname(literal)
    return posixpath.dirname(path) if path in index or path.endswith(".py") else path


def _at(path: str, index: PathIndex) -> tuple[list[str], list[str]]:
    """Return the paths of *index* that *path* itself is, and those in it."""
    if not _WILD.search(path):
        return [path] if path in index else [], index.under(f"{path}/" if path else "")
    pattern = _CHOICE.sub("?", path)
    found = index.under(literal_prefix(pattern))
    named = matching(found, [pattern])
    return named, [one for one in matching(found, [f"{pattern}/**"]) if one not in named]


def _expanded(word: str) -> list[str]:
    """Return the paths a shell word may stand for: a variable any text at all, braces opened."""
    words = [_RANGE.sub("*", _UNKNOWN.sub("**", word))]
    while len(words) < _EXPANDED_AT_MOST and (found := _BRACES.search(words[0])):
        start, end = words[0][: found.start()], words[0][found.end() :]
        words = [*words[1:], *(f"{start}{choice}{end}" for choice in found[1].split(","))]
    return [one for one in words if one]
