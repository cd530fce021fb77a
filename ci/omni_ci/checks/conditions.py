"""Whether an `if:` is an expression that Buildkite can read; it is evaluated there, not here.

expression := conjunction ("||" conjunction)*
conjunction := comparison ("&&" comparison)*
comparison := operand [("==" | "!=" | "=~" | "!~" | "includes") operand]
operand := "!" operand | "(" expression ")" | literal | /regex/ | name ["(" [string] ")"]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omni_hardware.errors import did_you_mean

ROOTS = ("build", "pipeline", "organization", "step", "env")
_COMPARISONS = ("==", "!=", "=~", "!~", "includes")
MAX_DEPTH = 50
_VALUES = ("string", "number", "regex", "variable")
_TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>\d+)
    | (?P<operator>\|\||&&|==|!=|=~|!~|!|\(|\))
    | (?P<regex>/(?:[^/\\\n]|\\.)+/[a-z]*)
    | (?P<variable>\$\$?\{[^}]*\}|\$\$?[A-Za-z_]\w*)
    | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


class ConditionError(ValueError):
    """An expression Buildkite would refuse; the message says what stands where."""


def check_condition(text: str) -> None:
    """Return nothing when *text* is a Buildkite condition. Raises ConditionError."""
    parser = _Parser(list(_tokens(text)), text)
    parser.expression()
    if (left := parser.peek()) is not None:
        raise parser.refused(left, "expected && or || before it")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConditionError(f"{text[at : at + 12]!r} at column {at + 1} cannot be read in {text!r}")
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found.group(), at + 1)
        at = found.end()


class _Parser:
    def __init__(self, tokens: list[_Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0
        self._depth = 0

    def peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def refused(self, token: _Token | None, why: str) -> ConditionError:
        place = f"{token.text!r} at column {token.column}" if token else "the end"
        return ConditionError(f"{place} of {self._text!r}: {why}")

    def expression(self) -> None:
        self._comparison()
        while self._taken("&&", "||"):
            self._comparison()

    def _comparison(self) -> None:
        self._operand()
        if self._taken(*_COMPARISONS):
            self._operand()

    def _operand(self) -> None:
        while self._taken("!"):
            pass
        token = self.peek()
        if token is not None and self._taken("("):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ConditionError(f"parentheses are more than {MAX_DEPTH} deep at column {token.column}")
            self.expression()
            self._expect(")")
            self._depth -= 1
        elif token is not None and token.kind in _VALUES:
            self._at += 1
        elif token is not None and token.kind == "name" and token.text not in _COMPARISONS:
            self._at += 1
            self._name(token)
        else:
            raise self.refused(token, "expected a value here")

    def _name(self, token: _Token) -> None:
        root = token.text.partition(".")[0]
        if token.text not in {"true", "false", "null"} and root not in ROOTS:
            raise self.refused(token, f"unknown name {root!r}{did_you_mean(root, ROOTS)}")
        if self._taken("("):
            argument = self.peek()
            if argument is not None and argument.kind in {"string", "variable"}:
                self._at += 1
            self._expect(")")

    def _taken(self, *texts: str) -> bool:
        token = self.peek()
        if token is None or token.kind not in {"operator", "name"} or token.text not in texts:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._taken(text):
            raise self.refused(self.peek(), f"expected {text!r}")
