"""The commands of a step as the environment of its job: what a runner in the pod reads instead of `commands:`.

The agent interpolates an environment value once, like a command, but this value is JSON: a quote in a branch's name, or
a backslash in whatever a variable holds, would end a text there or become another character. So `OMNI_COMMANDS` holds
nothing that upload replaces. Every `$` in it is doubled; `BUILDKITE_…` variables, which a job has as well, are left to
its shell; and a command with any other variable of upload travels as it is written, in an `OMNI_COMMAND_<n>` of its
own, which the list evaluates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

COMMANDS = "OMNI_COMMANDS"
ONE_COMMAND = "OMNI_COMMAND_"
ARTIFACTS = "OMNI_ARTIFACT_PATHS"
COMMANDS_AS_TEXT = "TEST_COMMANDS"
_EVALUATED = re.compile(rf'eval "\$\$({ONE_COMMAND}\d+)"')
# As the agent reads a text: `\\` stays, `\$` and `$$` are a dollar, and a dollar before anything but a letter or a
# brace is itself. The rest are the places where a shell's quoting may change.
_PIECE = re.compile(
    r"""
      (?P<pair>\\\\)
    | (?P<ansi>(?:\$\$|\\\$|\$)')
    | (?P<substitution>(?:\$\$|\\\$|\$)\()
    | (?P<escape>\\\$|\$\$)
    | (?P<expansion>\$(?:[^\W\d_]\w*|\{[^}]*\}?))
    | (?P<dollar>\$)
    | (?P<backslash>\\.?)
    | (?P<quote>['"])
    | (?P<hash>(?<![^\s;&|(])\#)
    | (?P<newline>\n)
    | (?P<heredoc><<)
    | (?P<backtick>`)
    | (?P<text>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# What bash, in the job, reads as the agent does at upload.
_OF_THE_JOB = re.compile(
    r"""\$(?:BUILDKITE_[A-Za-z0-9_]+|\{BUILDKITE_[A-Za-z0-9_]+(?::\d+(?::\d+)?|:?-[^$\\}'"`;|&<>()#\s]*)?\})"""
)
# What would make an assignment of a value that is replaced at upload, and in the job does not.
_ASSIGNS = re.compile(r"\w*\+?=")


def as_environment(commands: Sequence[str], *, as_text: bool = False) -> dict[str, str]:
    """Return the variables that carry *commands* through upload; *as_text* adds them as one text for older runners.

    Once the agent has interpolated it, `OMNI_COMMANDS` is a JSON array with one text a command, whatever the
    environment of the upload holds.
    """
    items: list[str] = []
    apart: dict[str, str] = {}
    for number, command in enumerate(commands, start=1):
        left = _left_to_the_job(command)
        if left is None:
            apart[f"{ONE_COMMAND}{number}"] = command
        items.append(f'eval "$${ONE_COMMAND}{number}"' if left is None else left)
    text = {COMMANDS_AS_TEXT: "\n".join(commands)} if as_text else {}
    # a line a command: people read what was uploaded
    listed = ",\n ".join(json.dumps(item, ensure_ascii=False) for item in items)
    return {COMMANDS: f"[{listed}]", **apart, **text}


def artifacts_for_runner(paths: Sequence[str] | str | None) -> dict[str, str]:
    """Return the variable that tells a runner what the agent will look for in the checkout; none without *paths*.

    The agent interpolates it as it does `artifact_paths`; a value that is no JSON then, the runner refuses.
    """
    listed = [paths] if isinstance(paths, str) else list(paths or ())
    written = [path.replace("\\$", "$$") for path in listed]  # JSON doubles a backslash
    return {ARTIFACTS: json.dumps(written, ensure_ascii=False)} if listed else {}


def commands_of(step: Mapping[str, Any]) -> list[str]:
    """Return the commands of a rendered *step* as a file would write them, whether or not they travel in its env."""
    env = step.get("env")
    if isinstance(env, Mapping) and isinstance(env.get(COMMANDS), str):
        try:
            items = json.loads(env[COMMANDS])
        except ValueError:
            items = None
        if isinstance(items, list):
            return [_as_written(str(item), env) for item in items]
    written = [step.get(name) or () for name in ("command", "commands")]
    return [str(line) for one in written for line in ([one] if isinstance(one, str) else one)]


def _as_written(item: str, env: Mapping[str, Any]) -> str:
    evaluated = _EVALUATED.fullmatch(item)
    return str(env.get(evaluated[1], item)) if evaluated else item


def _left_to_the_job(command: str) -> str | None:
    """Return *command* with nothing in it for upload to replace; None where something has to be replaced there."""
    if "$" not in command:
        return command
    made: list[str] = []
    quoting = _Quoting()
    before = ""
    for piece in _PIECE.finditer(command):
        kind, text = str(piece.lastgroup), piece[0]
        match kind:
            case "expansion":
                # a dollar right before it would make the shell's own number of both
                if not (quoting.expands and _OF_THE_JOB.fullmatch(text)) or before in {"escape", "dollar"}:
                    return None
                if _ASSIGNS.match(command, piece.end()):
                    return None
                made.append(f"${text}")
            case "ansi" | "substitution":
                made.append(f"$${text[-1]}")
            case "escape" | "dollar":
                made.append("$$")
            case _:
                made.append(text)
        quoting.reads(kind, text)
        before = kind
    return "".join(made)


class _Quoting:
    """Whether a shell would expand a variable at the place reached. Where that is hard to say, it would not."""

    def __init__(self) -> None:
        self._inside = ""  # ' or " or # or nothing
        self._is_unsure = False

    @property
    def expands(self) -> bool:
        return self._inside != "'" and not self._is_unsure

    def reads(self, kind: str, text: str) -> None:
        match kind, self._inside:
            case ("quote", "") | ("hash", ""):
                self._inside = text
            case ("quote", inside) if inside == text:
                self._inside = ""
            case ("newline", "#"):
                self._inside = ""
            case ("backslash", "'") if text[1:] == "'":
                self._inside = ""  # a backslash means nothing there
            case ("backslash", "#") if text[1:] == "\n":
                self._inside = ""
            # text with rules of its own, and substitutions, which start quoting anew
            case ("ansi" | "heredoc", "") | ("backtick", "" | '"') | ("substitution", '"'):
                self._is_unsure = True
            case ("ansi", "'"):
                self._inside = ""
