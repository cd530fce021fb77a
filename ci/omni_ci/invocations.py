"""What a step's shell commands run: the test paths they name, and whether they measure coverage.

Only a reading for the selection: a path too many selects a step too often, a missed one is said in a notice.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_OPERATORS = ";&|()<>\n"
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_PYTEST = frozenset({"pytest", "py.test"})
_COVERAGE_SCRIPT = "run_cov_split.sh"
_LAUNCHER = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|coverage|mpirun|mpiexec")
_TEST_FILE = re.compile(r"(?:.*/)?(?:tests?/.*|test_[^/]*|[^/]*_test)\.py")
_VARIABLE = re.compile(r"\$\{[^}]*\}|\$\w+")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_RANGE = re.compile(r"\{[^{},]*\.\.[^{},]*\}")
_EXPANDED_AT_MOST = 64
_DEEPEST = 4  # bash -c inside bash -c
# Options whose value could be taken for a test path.
_VALUED = frozenset(
    [
        "-m",
        "-k",
        "-p",
        "-c",
        "-n",
        "-o",
        "-W",
        "--ignore",
        "--ignore-glob",
        "--deselect",
        "--rootdir",
        "--confcutdir",
        "--basetemp",
        "--junitxml",
        "--junit-xml",
        "--run-level",
        "--model-id",
        "--num-shards",
        "--shard-id",
        "--shard-by",
        "--shard",
        "--shard-durations",
        "--omni-inventory",
        "--omni-report",
        "--omni-platform",
        "--omni-max-skips",
        "--maxfail",
        "--tb",
        "--timeout",
        "--cov",
        "--cov-config",
        "--cov-report",
        "--import-mode",
        "--override-ini",
        "--config-file",
        "--log-file",
        "--html",
    ]
)


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
    text = "\n".join(commands)
    if not any(word in text for word in ("pytest", "cov", ".py")):
        return Invocations()
    reader = _Reader()
    for command in commands:
        reader.read(command.replace("$$", "$"), 0)
    return Invocations(
        tuple(dict.fromkeys(reader.words)), reader.runs_pytest, reader.measures_coverage, reader.problem
    )


@dataclass(slots=True)
class _Reader:
    words: list[str] = field(default_factory=list)
    runs_pytest: bool = False
    measures_coverage: bool = False
    problem: str | None = None
    folder: str = ""

    def read(self, script: str, depth: int) -> None:
        try:
            tokens = _tokens(script)
        except ValueError as error:
            self.problem = str(error)
            tokens = re.findall(r"[\w./:*?\[\]-]+|\n", script)
        for command in _simple_commands(tokens):
            self._command(command, depth)

    def _command(self, tokens: Sequence[str], depth: int) -> None:
        if tokens[0] in ("cd", "pushd") and len(tokens) > 1:
            folder = posixpath.normpath(posixpath.join(self.folder, tokens[1]))
            self.folder = "" if folder.startswith(("/", ".")) or "$" in folder else folder
            return
        for index, token in enumerate(tokens):
            name = posixpath.basename(token)
            if name in _SHELLS and depth < _DEEPEST and (script := _inline_script(tokens[index + 1 :])):
                self.read(script, depth + 1)
                return
            if name == _COVERAGE_SCRIPT or _is_cov_split(tokens[index : index + 3]):
                self.measures_coverage = True
                self._arguments(tokens[index + 1 :])
                return
            if name in _PYTEST:
                self.runs_pytest = True
                if not self._arguments(tokens[index + 1 :]) and self.folder:
                    self.words.append(self.folder)  # without a path, pytest takes the folder it is in
                return
        start = next(
            (at for at, token in enumerate(tokens) if _LAUNCHER.fullmatch(posixpath.basename(token))), None
        )
        if start is not None:
            self._arguments([token for token in tokens[start + 1 :] if _TEST_FILE.fullmatch(token)])

    def _arguments(self, tokens: Sequence[str]) -> bool:
        """Take the words that are no options; return whether there were any."""
        before = len(self.words)
        skip = False
        for token in tokens:
            if skip or token.startswith("-"):
                skip = not skip and token in _VALUED
                continue
            for path in _expanded(token.split("::")[0]):
                folders = {self.folder, ""} if not path.startswith("$") else {""}
                self.words += [posixpath.normpath(posixpath.join(folder, path)) for folder in folders if path]
        return len(self.words) > before


def _expanded(word: str) -> list[str]:
    """Return the paths a shell word may stand for: braces opened, a variable inside of it any text at all."""
    words = [_RANGE.sub("*", word)]
    while len(words) < _EXPANDED_AT_MOST and (found := _BRACES.search(words[0])):
        start, end = words[0][: found.start()], words[0][found.end() :]
        words = [*words[1:], *(f"{start}{choice}{end}" for choice in found[1].split(","))]
    return [one if one.startswith("$") else _VARIABLE.sub("**", one) for one in words]


def _tokens(script: str) -> list[str]:
    script = re.sub(r"(?m)^\s*#.*$", "", script).replace("\\\n", " ")
    lexer = shlex.shlex(script, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    return list(lexer)


def _simple_commands(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Split at operators and line ends; a word that starts with # hides the rest of its line."""
    command: list[str] = []
    hidden = False
    for token in tokens:
        if token and not token.strip(_OPERATORS):
            hidden = hidden and "\n" not in token
            if command:
                yield command
            command = []
        elif not hidden:
            hidden = token.startswith("#")
            if not hidden:
                command.append(token)
    if command:
        yield command


def _inline_script(tokens: Sequence[str]) -> str | None:
    for index, token in enumerate(tokens):
        if not token.startswith("-"):
            return None
        if not token.startswith("--") and "c" in token:
            return tokens[index + 1] if index + 1 < len(tokens) else None
    return None


def _is_cov_split(tokens: Sequence[str]) -> bool:
    return (
        len(tokens) == 3
        and posixpath.basename(tokens[0]) in ("omni-ci", "omni_ci")
        and list(tokens[1:]) == ["cov", "split"]
    )
