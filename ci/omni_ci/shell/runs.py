"""The one reading of shell in this project: the commands of a script, and the pytest runs among them."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from omni_ci.shell.commands import TAKE_A_SCRIPT, Command, Script, ShellArguments, shell_arguments
from omni_ci.shell.parser import parse
from omni_ci.shell.programs import only_names

__all__ = [
    "Command",
    "PytestRun",
    "Script",
    "ShellArguments",
    "parse",
    "pytest_runs",
    "run_of",
    "shell_arguments",
]

_PYTEST = frozenset(["pytest", "py.test"])
_COVERAGE_SCRIPT = "run_cov_split.sh"
_KNOWN_AT_RUN_TIME = re.compile(r"[$`]")
# Options of pytest whose value stands in the next word, and could be taken for a test path.
_VALUED = re.compile(
    r"--(?:ignore|ignore-glob|deselect|rootdir|confcutdir|basetemp|junitxml|junit-xml|run-level|num-shards|shard-id|"
    r"shard-by|shard|shard-durations|omni-inventory|omni-report|omni-platform|omni-max-skips|maxfail|tb|timeout|cov|"
    r"cov-config|cov-report|import-mode|override-ini|config-file|log-file|html|durations|color|capture|model-id)"
)
_VALUED_LETTERS = frozenset("mkpcnoWr")


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestRun:
    """One pytest call, or one coverage split, as the shell would make it.

    paths: as written, node ids included; marks, keyword, run_level: what `-m`, `-k`, `--run-level` say, None where
    they do not stand or are known only at run time; problem: why this may not be what runs; torn: it is that an
    expression without quotes fell apart. measures_coverage: it is a coverage split, and paths are those of both its
    halves.
    """

    paths: tuple[str, ...]
    words: tuple[str, ...]
    line: int
    marks: str | None = None
    run_level: str | None = None
    keyword: str | None = None
    problem: str | None = None
    inside: tuple[str, ...] = ()
    folder: str = ""
    torn: bool = False
    measures_coverage: bool = False


@lru_cache(maxsize=8192)
def pytest_runs(script: str) -> tuple[PytestRun, ...]:
    """Return every pytest call of *script*, in which `$$` is turned into `$` already; never raises."""
    if not any(word in script for word in ("pytest", "py.test", _COVERAGE_SCRIPT, "omni-ci", "omni_ci")):
        return ()
    read = parse(script)
    runs = [run for command in read.commands if (run := run_of(command, read.problem)) is not None]
    if not runs and read.problem and "pytest" in script:
        return (PytestRun(paths=(), words=(), line=1, problem=read.problem),)
    return tuple(runs)


def run_of(command: Command, problem: str | None = None) -> PytestRun | None:
    """Return the pytest call that *command* is, None where it is none; *problem*: why its script may be misread."""
    if command.name in TAKE_A_SCRIPT or shell_arguments(command.words) is not None:
        return None  # its script is read as commands of its own
    for index, word in enumerate(command.words):
        name = posixpath.basename(word)
        is_split = name == _COVERAGE_SCRIPT or _is_cov_split(command.words[index : index + 3])
        if not (name in _PYTEST or is_split):
            continue
        if only_names(command.words[:index]):
            return None
        if is_split:
            words = command.words[index + (1 if name == _COVERAGE_SCRIPT else 3) :]
            return _run(command, _of_split(words), problem, measures_coverage=True)
        addopts = [value for name, value in command.assigns if name == "PYTEST_ADDOPTS"]
        given = [*_split(addopts[0] if addopts else ""), *_handed_over(command.words, index)]
        return _run(command, _Arguments.of(given), problem)
    return None


def _handed_over(words: Sequence[str], at: int) -> Sequence[str]:
    """Return the arguments of the pytest at *at*; from `find`, which ends them with `{} +`, its folders for `{}`."""
    given = words[at + 1 :]
    if "find" not in map(posixpath.basename, words[:at]) or not given or given[-1] not in {";", "+"}:
        return given
    start = [posixpath.basename(word) for word in words].index("find") + 1
    folders = list(takewhile(lambda word: not word.startswith("-"), words[start:at]))
    return [one for word in given[:-1] for one in (folders if word == "{}" else [word])]


def _run(
    command: Command, given: _Arguments, problem: str | None, *, measures_coverage: bool = False
) -> PytestRun:
    values = {name: given.values.get(name) for name in ("-m", "--run-level", "-k")}
    opaque = {name: value for name, value in values.items() if value and _KNOWN_AT_RUN_TIME.search(value)}
    torn = _torn(values["-m"], given.paths)
    said = torn or problem
    if opaque and not said:
        name, value = next(iter(opaque.items()))
        said = f'{name} "{value}" is known only at run time'
    marks, run_level, keyword = (None if name in opaque else value for name, value in values.items())
    return PytestRun(
        paths=tuple(given.paths),
        words=command.words,
        line=command.line,
        marks=marks,
        run_level=run_level,
        keyword=keyword,
        problem=said,
        inside=command.inside,
        folder=command.folder,
        torn=torn is not None,
        measures_coverage=measures_coverage,
    )


def _torn(marks: str | None, paths: Sequence[str]) -> str | None:
    """Return a sentence where an expression without quotes fell apart: `-m a and b`."""
    if marks is None or not (marks == "not" or set(paths) & {"and", "or", "not"}):
        return None
    return f"`-m {marks} …` has no quotes around its expression: pytest gets {marks!r}, and takes the rest for paths"


@dataclass(slots=True)
class _Arguments:
    """pytest's command line: its paths, and the last value of each option that has one."""

    paths: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str]) -> _Arguments:
        read = cls()
        rest = iter(words)
        for word in rest:
            if word == "--":
                read.paths += rest
            elif word.startswith("--"):
                name, is_joined, value = word.partition("=")
                if is_joined or _VALUED.fullmatch(name):
                    read.values[name] = value if is_joined else next(rest, "")
            elif word.startswith("-") and word != "-":
                read._letters(word, rest)
            elif word:
                read.paths.append(word)
        return read

    def _letters(self, word: str, rest: Iterator[str]) -> None:
        """Read `-sv`, `-mvalue`, `-m=value`, `-svm value`."""
        for index, letter in enumerate(word[1:], 1):
            if letter in _VALUED_LETTERS:
                value = word[index + 1 :]
                self.values[f"-{letter}"] = value.removeprefix("=") if value else next(rest, "")
                return


def _of_split(words: Sequence[str]) -> _Arguments:
    """Read `--model-id ID --offline P --online P -- ARGUMENTS OF PYTEST`."""
    own = list(words[: words.index("--")] if "--" in words else words)
    read = _Arguments.of(words[len(own) + 1 :])
    paths: list[str] = []
    rest = iter(own)
    for word in rest:
        name, is_joined, value = word.partition("=")
        if name in {"--offline", "--online"}:
            paths.append(value if is_joined else next(rest, ""))
        elif name == "--model-id":
            read.values[name] = value if is_joined else next(rest, "")
    read.paths = [path for path in paths if path] + read.paths
    return read


def _is_cov_split(words: Sequence[str]) -> bool:
    return (
        len(words) == 3
        and posixpath.basename(words[0]) in {"omni-ci", "omni_ci"}
        and list(words[1:]) == ["cov", "split"]
    )


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
