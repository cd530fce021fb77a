r"""Which variables of a command the job's shell would expand just as upload does: those that can be left to it.

Upload puts a value into the text, which the shell reads afterwards; in the job the value comes once the shell has read
the text. The two are one only where neither the value nor its absence can be syntax: within double quotes, in an
argument, behind the `=` of an assignment. Wherever that is hard to say the answer is no.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# As the agent reads a text: `\\` stays, `\$` and `$$` are a dollar, and a dollar before anything but a letter or a
# brace is itself. The rest are the places where a shell's quoting may change.
_PIECE = re.compile(
    r"""
      (?P<pair>\\\\)
    | (?P<ansi>(?:\$\$|\\\$|\$)')
    | (?P<substitution>(?:\$\$|\\\$|\$)\()
    | (?P<braced>(?:\$\$|\\\$)\{(?:[!\#]?\w+(?::?[-+:%^,.\w]*)\})?)
    | (?P<escape>\\\$|\$\$)
    | (?P<expansion>\$(?:[^\W\d_]\w*|\{[^}]*\}?))
    | (?P<dollar>\$)
    | (?P<joined>\\\n)
    | (?P<backslash>\\.?)
    | (?P<quote>['"])
    | (?P<hash>(?:^|(?<=[ \t\n;&|()<>]))\#)
    | (?P<blank>[ \t])
    | (?P<newline>\n)
    | (?P<heredoc><<)
    | (?P<redirection>[<>])
    | (?P<operator>[;&|()])
    | (?P<backtick>`)
    | (?P<text>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# What bash, in the job, reads as the agent does at upload. A leading 0 would be octal to it.
_OF_THE_JOB = re.compile(
    r"""\$(?:
        (?P<plain>BUILDKITE_[A-Za-z0-9_]+)
      | \{(?P<braced>BUILDKITE_[A-Za-z0-9_]+)
          (?P<rest>(?::(?:0|[1-9][0-9]{0,8})(?::(?:0|[1-9][0-9]{0,8}))?|:?-[^$\\{}'"`;|&<>()\#~\s]*)?)\}
    )""",
    re.VERBOSE,
)
_A_NAME = r"\bBUILDKITE_[A-Za-z0-9_]+"
# `BUILDKITE_X=1`, `read BUILDKITE_X`, `${BUILDKITE_X:=1}`: from there on the job has another value than upload had.
_SET = re.compile(rf"(?<![$\{{])({_A_NAME})|\{{({_A_NAME}):?=")
_IS_STRICT = re.compile(r"\bnounset\b|(?<!\S)[-][A-Za-z]*u")
# A variable's name that goes on in what is put behind it.
_OPEN_NAME = re.compile(r"\$(?:\{[!#]?)?(?:\w|\\\n)*\Z")
# What would make syntax of a value that is replaced at upload, and in the job does not.
_MAKES_SYNTAX = re.compile(r"(?:\\\n)*(?:\w*\+?=|[{#~(<>])")
_ASSIGNS = re.compile(r"[A-Za-z_]\w*\+?=")
# After these the word that says what runs is still to come.
_BEFORE_A_COMMAND = re.compile(
    r"if|then|elif|else|while|until|do|for|select|case|function|time|coproc|!|-.*|[{}]|fi|done|esac|[0-9]+|\{\w+\}"
)
# And after these neither a word nor nothing may stand where another does.
_OPEN_GRAMMAR = frozenset(["[[", "for", "select"])
_HARD_GRAMMAR = frozenset(["case", "function"])
_ENDS_A_WORD = frozenset(["blank", "newline", "joined", "operator", "redirection", "heredoc", "substitution"])


class LeftToTheJob:
    """What the commands of one job do to the variables that are left to it: they share a shell."""

    def __init__(self, commands: Sequence[str]) -> None:
        text = "\n".join(commands)
        self._changed = {name for found in _SET.findall(text) for name in found if name}
        self._splits_otherwise = "IFS" in text
        self._is_strict = _IS_STRICT.search(text) is not None

    def written(self, command: str) -> str | None:
        """Return *command* with nothing in it for upload to replace; None where something has to be replaced there."""
        if "$" not in command:
            return command
        made: list[str] = []
        place = _Place()
        for piece in _PIECE.finditer(command):
            kind, text = str(piece.lastgroup), piece[0]
            match kind:
                case "expansion":
                    left = self._left(text, place, command[: piece.start()], command[piece.end() :])
                    if left is None:
                        return None
                    made.append(left)
                case "ansi" | "substitution":
                    made.append(f"$${text[-1]}")
                case "braced":
                    made.append(f"$${text[text.index('{') :]}")
                case "escape" | "dollar":
                    made.append("$$")
                case _:
                    made.append(text)
            place.reads(kind, text)
        return "".join(made)

    def _left(self, text: str, place: _Place, before: str, after: str) -> str | None:
        found = _OF_THE_JOB.fullmatch(text)
        if found is None or not place.expands or _OPEN_NAME.search(before):
            return None
        name = found["plain"] or found["braced"]
        if name in self._changed or _MAKES_SYNTAX.match(after):
            return None
        if found["plain"] and after.startswith("\\\n"):
            return None  # the shell joins the lines before it reads the name
        if self._splits_otherwise and not place.is_quoted:
            return None
        if self._is_strict and not (found["rest"] or "").startswith(("-", ":-")):
            return None if found["rest"] else f"$${{{name}-}}"
        return f"${text}"


class _Place:
    """Whether a variable at the place reached expands, and to nothing but text. Where that is hard to say, it does not."""

    def __init__(self) -> None:
        self._inside = ""  # ' or " or # or nothing
        self._is_unsure = False
        self._word = ""  # of the simple command, as far as it was read
        self._is_argument = False  # the word that says what runs is behind us
        self._is_target = False  # of a redirection
        self._is_grammar = False  # between [[ and ]], for and in
        self._before = ""

    @property
    def is_quoted(self) -> bool:
        return self._inside == '"'

    @property
    def expands(self) -> bool:
        if self._is_unsure or self._inside == "'":
            return False
        if self._inside:
            return True
        if self._is_target or self._is_grammar or "{" in self._word or "~" in self._word:
            return False
        return self._is_argument or _ASSIGNS.match(self._word) is not None

    def reads(self, kind: str, text: str) -> None:
        was = self._inside
        self._quotes(kind, text)
        if kind == "joined" and was != "#":
            pass  # to the shell it is not there
        elif was in {"'", '"'}:
            self._word += text
        elif kind in _ENDS_A_WORD and self._inside != "#":
            self._ends(kind, text)
        elif not was:
            # a name that is put there is none that the shell reads
            self._word += "$" if kind in {"expansion", "braced"} else text
        self._before = kind

    def _ends(self, kind: str, text: str) -> None:
        word, self._word = self._word, ""
        if kind == "operator" and text in "&|" and self._before == "redirection":
            return
        if word:
            self._is_unsure = self._is_unsure or word in _HARD_GRAMMAR
            self._is_grammar = word in _OPEN_GRAMMAR or (self._is_grammar and word not in {"]]", "in"})
            self._is_argument = self._is_argument or not (
                self._is_target or _BEFORE_A_COMMAND.fullmatch(word) or _ASSIGNS.match(word)
            )
            self._is_target = False
        if kind in {"newline", "joined", "operator", "substitution"}:
            self._is_argument = self._is_target = False
        elif kind == "redirection":
            self._is_target = True

    def _quotes(self, kind: str, text: str) -> None:
        match kind, self._inside:
            case ("hash", "") if self._before in {"joined", "backslash"}:
                self._is_unsure = True
            case ("quote", "") | ("hash", ""):
                self._inside = text
            case ("quote", inside) if inside == text:
                self._inside = ""
            case ("newline" | "joined", "#"):
                self._inside = ""
            case ("backslash", "'") if text[1:] == "'":
                self._inside = ""  # a backslash means nothing there
            # text with rules of its own, and substitutions, which start quoting anew
            case ("ansi" | "heredoc", "") | ("backtick", "" | '"') | ("substitution", '"'):
                self._is_unsure = True
            case ("braced", "" | '"') if not text.endswith("}"):
                self._is_unsure = True
            case ("ansi", "'"):
                self._inside = ""
