"""What a step's shell commands run: the test paths they name, and whether they measure coverage.

Only a reading for the selection: a path too many selects a step too often, a missed one is said in a notice.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from omni_ci.interpolation import at_run_time
from omni_ci.shell.runs import Command, PytestRun, parse, pytest_runs

_LAUNCHER = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|coverage|mpirun|mpiexec")
_TEST_FILE = re.compile(r"(?:.*/)?(?:tests?/.*|test_[^/]*|[^/]*_test)\.py")
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\w+")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_RANGE = re.compile(r"\{[^{},]*\.\.[^{},]*\}")
_EXPANDED_AT_MOST = 64
_WORD = re.compile(r"[\w./:*?\[\]-]+")
_LIKE_TESTS = re.compile(rf"{_TEST_FILE.pattern}(?:::.*)?|(?:.*/)?tests?/.*")


@dataclass(frozen=True, slots=True)
class Invocations:
    """The words that may be test paths, in order; *problem* says why the shell could not be read exactly."""

    words: tuple[str, ...] = ()
    runs_pytest: bool = False
    measures_coverage: bool = False
    problem: str | None = None


@lru_cache(maxsize=4096)
def invocations(commands: tuple[str, ...]) -> Invocations:
    """Return what *commands* run; never raises."""
    script = at_run_time("\n".join(commands))
    if not any(word in script for word in ("pytest", "cov", ".py")):
        return Invocations()
    read, runs = parse(script), pytest_runs(script)
    words = [word for run in runs for word in _paths(run)]
    words += [word for command in read.commands for word in _launched(command)]
    if read.problem:  # whatever looks like a test, rather than none
        words += [word.partition("::")[0] for word in _WORD.findall(script) if _LIKE_TESTS.fullmatch(word)]
    return Invocations(
        tuple(dict.fromkeys(words)),
        any(not run.measures_coverage for run in runs),
        any(run.measures_coverage for run in runs),
        read.problem,
    )


def _paths(run: PytestRun) -> Iterator[str]:
    folder = _known(run.folder)
    if not run.paths and folder and not run.measures_coverage:
        yield folder  # without a path, pytest takes the folder it is in
    for path in run.paths:
        yield from _placed(path, folder)


def _launched(command: Command) -> Iterator[str]:
    """Yield the test files that python, torchrun or another launcher is given."""
    names = [posixpath.basename(word) for word in command.words]
    start = next((at for at, name in enumerate(names) if _LAUNCHER.fullmatch(name)), len(names))
    if "pytest" not in names:
        for word in command.words[start + 1 :]:
            if _TEST_FILE.fullmatch(word):
                yield from _placed(word, _known(command.folder))


def _known(folder: str) -> str:
    """Return *folder* where it is one of the repository."""
    return "" if folder.startswith(("/", ".", "~")) or "$" in folder else folder


def _placed(word: str, folder: str) -> Iterator[str]:
    """Yield where *word* may lie: after a `cd`, in the new folder or still from the root."""
    for path in _expanded(word.partition("::")[0]):
        for base in {folder, ""} if not path.startswith("$") else {""}:
            if path:
                yield posixpath.normpath(posixpath.join(base, path))


def _expanded(word: str) -> list[str]:
    """Return the paths a shell word may stand for: braces opened, a variable inside of it any text at all."""
    words = [_RANGE.sub("*", word)]
    while len(words) < _EXPANDED_AT_MOST and (found := _BRACES.search(words[0])):
        start, end = words[0][: found.start()], words[0][found.end() :]
        words = [*words[1:], *(f"{start}{choice}{end}" for choice in found[1].split(","))]
    return [one if one.startswith("$") else _VARIABLE.sub("**", one) for one in words]
