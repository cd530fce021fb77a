"""The commands of a shell script: what runs, after what, in which folder, inside of what, and which shells it starts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SHELLS = frozenset(["bash", "sh", "zsh", "dash", "ksh"])
TAKE_A_SCRIPT = frozenset(["eval", "trap"])
_SAY = frozenset(["echo", "printf"])
# Builtins whose words are names of variables that they set.
_NAMES_VARIABLES = frozenset(
    ["export", "declare", "local", "readonly", "typeset", "read", "mapfile", "readarray", "getopts", "printf"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A simple command.

    words: the program's name and its arguments, without quotes, variables as written; () where there are only
    assignments or a redirection. assigns: the `A=b` before it. before, after: the operator on either side, "" where
    a line, a list or the script starts or ends. inside: what it stands in, outermost first: "subshell", "$()",
    "bash -c", "bash <<", "eval", "trap", "if" (a condition), "then", "while", "for", "do", "case", "function", "{ }".
    within: a number for each of these, the same for what stands in the same one. redirects: (operator, target) pairs.
    folder: where `cd` has led: "" is where the script starts. is_inverted: `!` stands before it, or before what it
    stands in.
    """

    words: tuple[str, ...]
    line: int
    before: str = ""
    after: str = ""
    inside: tuple[str, ...] = ()
    within: tuple[int, ...] = ()
    assigns: tuple[tuple[str, str], ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    is_inverted: bool = False

    @property
    def name(self) -> str:
        """The program without its folder; "" where nothing runs."""
        return posixpath.basename(self.words[0]) if self.words else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script's commands; problem: why they may not be what a shell would run, None where they are exact.

    functions: the names of the functions that it defines, by the number that `within` of their commands has.
    """

    commands: tuple[Command, ...]
    problem: str | None = None
    loops: frozenset[str] = frozenset()
    functions: Mapping[int, str] = field(default_factory=dict)

    @property
    def assigned(self) -> frozenset[str]:
        """The variables that the script itself gives a value."""
        names = {name for command in self.commands for name, _ in command.assigns}
        return frozenset(names | self.loops | {name for one in self.commands for name in _set_by(one)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellArguments:
    """What a `bash -c` gets: the script, at which of the words it stands, and the words after it ($0, $1, …)."""

    script: str
    at: int
    extra: tuple[str, ...]


def shell_arguments(words: Sequence[str]) -> ShellArguments | None:
    """Return what a `bash -c` among *words* gets, whatever stands before it; None without one."""
    if words and posixpath.basename(words[0]) in _SAY:
        return None
    shells = (index for index, word in enumerate(words) if posixpath.basename(word) in SHELLS)
    return next((found for index in shells if (found := _inline(words, index + 1)) is not None), None)


def _inline(words: Sequence[str], at: int) -> ShellArguments | None:
    """Read the options from *at* on as bash does: `-c` may stand anywhere among them, the script follows them."""
    is_inline = False
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] not in {"-", "--"}:
        option = words[at]
        at += 1
        if option in {"--rcfile", "--init-file"}:
            at += 1
        elif not option.startswith("--"):
            is_inline = is_inline or "c" in option
            at += option.count("o") + option.count("O")  # -euo pipefail
    at += at < len(words) and words[at] in {"-", "--"}
    if not is_inline or at >= len(words):
        return None
    return ShellArguments(script=words[at], at=at, extra=tuple(words[at + 1 :]))


def _set_by(command: Command) -> Iterator[str]:
    if command.name in _NAMES_VARIABLES:
        for word in command.words[1:]:
            name = word.partition("=")[0].rstrip("+")
            if name.isidentifier():
                yield name
