"""What a step's shell commands run: pytest, and the test files that other launchers are given.

Only a reading for the selection: a path too many selects a step too often, a missed one is said in a notice.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from omni_ci.interpolation import at_run_time
from omni_ci.shell.runs import Command, PytestRun, parse, pytest_runs

_LAUNCHER = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|coverage|mpirun|mpiexec")
_TEST_FILE = re.compile(r"(?:.*/)?(?:tests?/.*|test_[^/]*|[^/]*_test)\.py")
_WORD = re.compile(r"[\w./:*?\[\]-]+")
_LIKE_TESTS = re.compile(rf"{_TEST_FILE.pattern}(?:::.*)?|(?:.*/)?tests?/.*")


@dataclass(frozen=True, slots=True)
class Invocations:
    """The runs of tests, in order; *problem* says why the shell could not be read exactly.

    A run without words is no pytest's own: a launcher's, or whatever looks like a test where the shell is unreadable.
    """

    runs: tuple[PytestRun, ...] = ()
    problem: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may be test paths, as written."""
        return tuple(dict.fromkeys(path for run in self.runs for path in run.paths))

    @property
    def measures_coverage(self) -> bool:
        """Whether a model's tests run with a report for each mode."""
        return any(run.measures_coverage for run in self.runs)


@lru_cache(maxsize=4096)
def invocations(commands: tuple[str, ...]) -> Invocations:
    """Return what *commands* run; never raises."""
    script = at_run_time("\n".join(commands))
    if not any(word in script for word in ("pytest", "py.test", "cov", ".py")):
        return Invocations()
    read = parse(script)
    runs = [*pytest_runs(script), *launched(read.commands)]
    if read.problem and (found := tuple(_alike(script))):  # whatever looks like a test, rather than none
        guess = PytestRun(paths=found, words=(), line=1, problem=read.problem)
        runs = [*(run for run in runs if run.paths or run.words), guess]
    return Invocations(tuple(runs), read.problem)


def launched(commands: Iterable[Command]) -> Iterator[PytestRun]:
    """Yield a run of the test files that python, torchrun or another launcher is given."""
    for command in commands:
        if paths := tuple(_launched(command)):
            yield PytestRun(
                paths=paths, words=(), line=command.line, inside=command.inside, folder=command.folder
            )


def _alike(script: str) -> Iterator[str]:
    yield from dict.fromkeys(
        word.partition("::")[0] for word in _WORD.findall(script) if _LIKE_TESTS.fullmatch(word)
    )


def _launched(command: Command) -> Iterator[str]:
    names = [posixpath.basename(word) for word in command.words]
    start = next((at for at, name in enumerate(names) if _LAUNCHER.fullmatch(name)), len(names))
    if "pytest" not in names:
        yield from (word for word in command.words[start + 1 :] if _TEST_FILE.fullmatch(word))
