"""Marker expressions as ``-m`` takes them: which names they use, and what they select.

The grammar is the one of pytest's own ``-m``: and, or, not, parentheses, names, and names with keyword arguments.
A parser of our own, since pytest's is private and forgets where a name stood, and under how many nots.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from omni_hardware.errors import InputError, did_you_mean

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)
    |(?P<mark>[()=,])
    |(?P<string>"[^"]*"|'[^']*')
    |(?P<word>(?::?\w|:|\+|-|\.|\[|\]|\\|/)+)""",
    re.VERBOSE,
)
_CARDS = "cards_"
_NUMBERED = re.compile(rf"{_CARDS}[0-9]{{1,9}}")
_OPERATORS = ("and", "or", "not")
_CONSTANTS = ("True", "False", "None")
_DEEPEST = 100  # Python's own compiler gives up somewhere above


class ExpressionError(InputError):
    """An expression that cannot be read; *column* counts from 1."""

    def __init__(self, text: str, column: int, problem: str) -> None:
        super().__init__(f"{text!r}: column {column}: {problem}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Name:
    """One marker's name; *column* counts from 1, *called* says that arguments in parentheses follow."""

    name: str
    column: int
    called: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """Matches where its operand does not."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Either:
    """Matches where one of its operands does."""

    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """Matches where each of its operands does."""

    operands: tuple[Node, ...]


Node = Name | Not | Either | Both


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; *root* is None for an empty one, which matches nothing."""

    text: str
    root: Node | None

    @property
    def names(self) -> tuple[tuple[str, int], ...]:
        """Every name with its column (from 1), in reading order."""
        return tuple((name.name, name.column) for name, _ in _walk(self.root, negated=False))

    @property
    def positive(self) -> frozenset[str]:
        """The names that stand under an even number of nots: what the expression asks for."""
        return frozenset(name.name for name, negated in _walk(self.root, negated=False) if not negated)

    def matches(self, names: Collection[str]) -> bool:
        """Return whether a test with the marks *names* is selected.

        A name with arguments counts as its name alone: names do not tell which arguments a mark has.
        """
        return self.root is not None and _matches(self.root, names)


def parse(text: str) -> Expression:
    """Return *text* as an expression; ExpressionError says at which column it cannot be read."""
    return Expression(text, _Parser(text).expression())


def unknown_names(expression: Expression, known: Iterable[str]) -> list[str]:
    """Return one message for each name that is not among *known*, with its column and the nearest known name."""
    valid = list(dict.fromkeys(known))
    first: dict[str, int] = {}
    for name, column in expression.names:
        first.setdefault(name, column)
    return [
        f"{expression.text!r}: column {column}: no marker is called {name!r}{_meant(name, valid)}"
        for name, column in first.items()
        if name not in valid
    ]


def _meant(name: str, valid: list[str]) -> str:
    counts = sorted(int(word.removeprefix(_CARDS)) for word in valid if _NUMBERED.fullmatch(word))
    if counts and _NUMBERED.fullmatch(name):  # any of them would be as near
        return f" (known: {_CARDS}{counts[0]} to {_CARDS}{counts[-1]})"
    return did_you_mean(name, valid)


def _walk(node: Node | None, *, negated: bool) -> Iterator[tuple[Name, bool]]:
    match node:
        case Name():
            yield node, negated
        case Not(operand):
            yield from _walk(operand, negated=not negated)
        case Either(operands) | Both(operands):
            for operand in operands:
                yield from _walk(operand, negated=negated)


def _matches(node: Node, names: Collection[str]) -> bool:
    match node:
        case Name(name):
            return name in names
        case Not(operand):
            return not _matches(operand, names)
        case Either(operands):
            return any(_matches(operand, names) for operand in operands)
        case Both(operands):
            return all(_matches(operand, names) for operand in operands)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # word, string, "end", or the character or operator itself
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scanned())
        self._next = 0
        self._depth = 0

    def expression(self) -> Node | None:
        if self._accept("end"):
            return None
        node = self._either()
        if not self._accept("end"):
            self._refuse("'and', 'or' or the end")
        return node

    def _either(self) -> Node:
        operands = [self._both()]
        while self._accept("or"):
            operands.append(self._both())
        return operands[0] if len(operands) == 1 else Either(tuple(operands))

    def _both(self) -> Node:
        operands = [self._single()]
        while self._accept("and"):
            operands.append(self._single())
        return operands[0] if len(operands) == 1 else Both(tuple(operands))

    def _single(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} levels of 'not' and parentheses")
        node = self._operand()
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        if self._accept("not"):
            return Not(self._single())
        if self._accept("("):
            node = self._either()
            self._expect(")", "'and', 'or' or ')'")
            return node
        name = self._expect("word", "a marker's name, 'not' or '('")
        if not self._accept("("):
            return Name(name.text, name.column)
        self._arguments()
        return Name(name.text, name.column, called=True)

    def _arguments(self) -> None:
        seen: set[str] = set()
        while True:
            name = self._argument()
            if name.text in seen:
                self._fail(f"argument {name.text!r} stands twice", name)
            seen.add(name.text)
            if not self._accept(","):
                break
        self._expect(")", "',' or ')'")

    def _argument(self) -> _Token:
        name = self._expect("word", "the name of an argument")
        if not name.text.isidentifier() or keyword.iskeyword(name.text):
            self._fail(f"{name.text!r} cannot be the name of an argument", name)
        self._expect("=", "'='")
        if self._accept("string"):
            return name
        value = self._expect("word", "a string in quotes, a whole number, True, False or None")
        if not _is_number(value.text) and value.text not in _CONSTANTS:
            self._fail(f"{value.text} is no string in quotes, whole number, True, False or None", value)
        return name

    def _accept(self, kind: str) -> _Token | None:
        token = self._tokens[self._next]
        if token.kind != kind:
            return None
        self._next += token.kind != "end"
        return token

    def _expect(self, kind: str, what: str) -> _Token:
        return self._accept(kind) or self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        self._fail(f"expected {what}, got {self._tokens[self._next]}")

    def _fail(self, problem: str, token: _Token | None = None) -> NoReturn:
        raise ExpressionError(self._text, (token or self._tokens[self._next]).column, problem)

    def _scanned(self) -> Iterator[_Token]:
        at = 0
        while at < len(self._text):
            hit = _TOKEN.match(self._text, at)
            if hit is None:
                yield self._unreadable(at)
            elif hit.lastgroup == "string" and "\\" in hit[0]:
                raise ExpressionError(
                    self._text, at + hit[0].index("\\") + 1, "a backslash in a string is not allowed"
                )
            elif hit.lastgroup != "space":
                kind = hit[0] if hit.lastgroup == "mark" or hit[0] in _OPERATORS else str(hit.lastgroup)
                yield _Token(kind, hit[0], at + 1)
            at = hit.end() if hit else len(self._text)
        yield _Token("end", "", len(self._text) + 1)

    def _unreadable(self, at: int) -> NoReturn:
        found = self._text[at]
        problem = f"the closing {found} is missing" if found in "'\"" else f"unexpected character {found!r}"
        raise ExpressionError(self._text, at + 1, problem)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()  # "²" is a digit too, but no number
