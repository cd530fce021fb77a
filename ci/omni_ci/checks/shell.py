"""What a shell would make of a step's commands, and nobody meant (S13)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from omni_ci.checks.findings import Finding, Level, Placed
from omni_ci.shell.runs import Command, ShellArguments, pytest_runs, shell_arguments
from omni_ci.shell.tokens import TOO_DEEP
from omni_hardware.expression import ExpressionError, parse

# What people write for $0 when they hand arguments to a script on purpose.
_STANDS_FOR_ZERO = frozenset(["_", "-", "--", "bash", "sh", "$0"])
_USES_ARGUMENTS = re.compile(r"\$(?:[1-9@*#]|\{[1-9@*#])|\bshift\b|\bgetopts\b")
_USES_ZERO = re.compile(r"\$(?:0|\{0)")
_LONGEST = 60


def check_shell(steps: Sequence[Placed]) -> Iterator[Finding]:
    """Yield what is wrong with the shell of *steps*, with the line of their commands it stands on."""
    for one in steps:
        if one.runs_commands and one.script:
            for level, message in dict.fromkeys(_said(one)):
                yield one.finding("S13", message, level=level)


def _said(one: Placed) -> Iterator[tuple[Level, str]]:
    problem = one.shell.problem
    if problem is not None:
        level = Level.NOTICE if problem.endswith(TOO_DEEP) else Level.ERROR
        yield level, f"its commands cannot be read as shell: {problem}"
    for command in one.shell.commands:
        if (inline := shell_arguments(command.words)) and not _is_meant(inline):
            yield Level.ERROR, f"line {command.line} of its commands: {_lost(command, inline)}"
    for run in pytest_runs(one.script):
        if run.torn:
            yield Level.ERROR, f"line {run.line} of its commands: {run.problem}"
        elif run.marks is not None and (refused := _refused(run.marks)):
            yield Level.ERROR, f"line {run.line} of its commands: pytest refuses -m {refused}"


def _is_meant(inline: ShellArguments) -> bool:
    """Return whether the script has a use for the words behind it."""
    if not inline.extra or _USES_ARGUMENTS.search(inline.script):
        return True
    return inline.extra[0] in _STANDS_FOR_ZERO or (
        len(inline.extra) == 1 and bool(_USES_ZERO.search(inline.script))
    )


def _lost(command: Command, inline: ShellArguments) -> str:
    words = ", ".join(f"`{_short(word)}`" for word in inline.extra)
    shell = " ".join(command.words[: inline.at])
    return (
        f"`{_short(shell)}` takes one argument, and its script ends at `{_short(inline.script, end=True)}`: "
        f"{words} {'are' if len(inline.extra) > 1 else 'is'} lost. Quotes within the same quotes end them: use the "
        "other kind inside; for arguments that the script uses put `_` before them"
    )


def _short(text: str, *, end: bool = False) -> str:
    bare = " ".join(text.split())
    if len(bare) <= _LONGEST:
        return bare
    return f"…{bare[-_LONGEST:]}" if end else f"{bare[:_LONGEST]}…"


def _refused(marks: str) -> str | None:
    try:
        parse(marks)
    except ExpressionError as error:
        return str(error)
    return None
