r"""What `buildkite-agent pipeline upload` makes of the variables in a text: the agent's own rules, simulated.

    text      := ("\\" | "\$" | "$$" | "$(" | "$" expansion | any character)*
    expansion := name | "{" name [operator] "}"
    operator  := ":-" text | "-" text | "?" text | ":" number [":" number]
    name      := letter (letter | digit | "_")*, in any script

`$$` and `\$` become `$`, two backslashes stay two, a `$` before anything else is itself. Facts: buildkite/interpolate
v0.1.5, whose inputs and outputs are among the tests.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NoReturn

from omni_hardware.errors import InputError

_DEEPEST = 50
_NUMBER = re.compile(r"[+-]?[0-9]+")
_LARGEST = 2**63 - 1
_END = "\ufffd"  # what the agent prints where nothing is left
_LITERAL = re.compile(r"\\\\|\\\$|\$\$|\$\(")
# A `$` that is neither escaped nor starts an expansion, with what follows it.
_LEFT_ALONE = re.compile(rf"{_LITERAL.pattern}|(\$[^\w{{]|\$[\d_])")
_TO_ESCAPE = re.compile(r"\\\\|\\(?=\$)|\$")
# There is no escape for a backslash before a dollar: as the default of a variable nobody sets it survives.
_LONE_BACKSLASH = r"${OMNI_CI_UNSET:-\}"


class InterpolationError(InputError):
    """A text that the agent refuses to upload; *column* counts from 1, *reason* is the agent's own sentence."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        self.excerpt = text[column - 1 : column + 23].partition("\n")[0]
        super().__init__(f"{self.excerpt!r} at column {column}: {reason}")
        self.column = column
        self.reason = reason


class Operator(StrEnum):
    """What may stand after the name in `${NAME…}`."""

    NONE = ""
    IF_EMPTY = ":-"
    IF_UNSET = "-"
    REQUIRED = "?"
    SLICE = ":"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A variable that upload replaces, as *text* from *column* on, which counts from 1.

    content: the default or the message after its operator; bounds: where a slice starts, and how long it is.
    """

    name: str
    text: str
    column: int
    operator: Operator = Operator.NONE
    content: tuple[str | Reference, ...] = ()
    bounds: tuple[int, ...] = ()

    @property
    def has_default(self) -> bool:
        """Whether the author says what shall stand there without the variable."""
        return self.operator in {Operator.IF_EMPTY, Operator.IF_UNSET}


def interpolate(text: str, env: Mapping[str, str]) -> str:
    """Return *text* as the agent uploads it when its environment is *env*. Raises InterpolationError."""
    return _expanded(_parsed(text), env, text)


def references(text: str) -> tuple[Reference, ...]:
    """Return the variables that upload replaces in *text*, those in defaults too. Raises InterpolationError."""
    return tuple(_walked(_parsed(text)))


def variables(text: str) -> tuple[str, ...]:
    """Return the names of the variables that upload replaces in *text*, each once. Raises InterpolationError."""
    return tuple(dict.fromkeys(one.name for one in references(text)))


def at_run_time(text: str) -> str:
    r"""Return *text* as the job's shell gets it: `$$` and `\$` are `$`; a `$NAME` stays as it is written."""
    return _LITERAL.sub(lambda found: "$" if found[0] in {"$$", r"\$"} else found[0], text)


def escaped(text: str) -> str:
    """Return what has to be written so that the agent uploads *text* as it is."""
    return _TO_ESCAPE.sub(lambda found: _ESCAPES.get(found[0], found[0]), text)


def portability(text: str) -> list[str]:
    """Return a sentence for each kind of `$` in *text* that only agents with interpolate 0.1.5 or later accept."""
    found = dict.fromkeys(one[1] for one in _LEFT_ALONE.finditer(text) if one[1])
    return [
        f"`{one}` is an error to older agents (buildkite/agent#715); `${one}` is fine for all"
        for one in found
    ]


_ESCAPES = {"\\": _LONE_BACKSLASH, "$": "$$"}


def _expanded(items: tuple[str | Reference, ...], env: Mapping[str, str], text: str) -> str:
    return "".join(one if isinstance(one, str) else _value(one, env, text) for one in items)


def _value(one: Reference, env: Mapping[str, str], text: str) -> str:
    value = env.get(one.name)
    if (value is None and one.operator is Operator.IF_UNSET) or (
        not value and one.operator is Operator.IF_EMPTY
    ):
        return _expanded(one.content, env, text)
    if value is None and one.operator is Operator.REQUIRED:
        message = _expanded(one.content, env, text) or "not set"
        raise InterpolationError(text, one.column, f"${one.name}: {message}")
    return _slice(value or "", one.bounds) if one.operator is Operator.SLICE else value or ""


def _slice(value: str, bounds: tuple[int, ...]) -> str:
    """Return a part of *value*, counted in bytes, as the agent does."""
    data = value.encode("utf-8", "surrogateescape")
    start = bounds[0] if bounds[0] >= 0 else max(bounds[0] + len(data), 0)
    start = min(start, len(data))
    end = len(data)
    if len(bounds) > 1:
        end = start + bounds[1] if bounds[1] >= 0 else max(bounds[1] + len(data), start)
    return data[start:end].decode("utf-8", "replace")


def _walked(items: tuple[str | Reference, ...]) -> Iterator[Reference]:
    for one in items:
        if isinstance(one, Reference):
            yield one
            yield from _walked(one.content)


def _parsed(text: str) -> tuple[str | Reference, ...]:
    if "$" not in text:
        return (text,)
    return _Parser(text).items()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._start = 0

    def items(self, stop: str = "") -> tuple[str | Reference, ...]:
        """Read text and variables up to *stop*, or to the end."""
        found: list[str | Reference] = []
        while (character := self._peek()) and character != stop:
            if literal := _LITERAL.match(self._text, self._at):
                self._at = literal.end()
                found.append("$" if literal[0] in {"$$", r"\$"} else literal[0])
            elif character == "$" and (self._peek(1) == "{" or _is_letter(self._peek(1))):
                found.append(self._reference())
            else:
                self._at += 1
                found.append(character + self._until(f"$\\{stop}"))
        return tuple(found)

    def _reference(self) -> Reference:
        self._start = start = self._at
        self._at += 1
        if self._peek() != "{":
            return self._made(start, self._name())
        self._at += 1
        name = self._name()
        operator = self._operator()
        content: tuple[str | Reference, ...] = ()
        bounds: tuple[int, ...] = ()
        if operator is Operator.SLICE:
            bounds = self._bounds()
        elif operator is not Operator.NONE:
            content = self._content()
        self._start = start
        if (end := self._next()) != "}":
            self._fail(f"Expected brace expansion to end with }}, got {end}")
        return self._made(start, name, operator, content, bounds)

    def _made(
        self,
        start: int,
        name: str,
        operator: Operator = Operator.NONE,
        content: tuple[str | Reference, ...] = (),
        bounds: tuple[int, ...] = (),
    ) -> Reference:
        text = self._text[start : self._at]
        return Reference(
            name=name, text=text, column=start + 1, operator=operator, content=content, bounds=bounds
        )

    def _name(self) -> str:
        start = self._at
        if not _is_letter(self._peek()):
            self._fail(f"Expected identifier to start with a letter, got {self._peek() or _END}")
        while (character := self._peek()) and (
            character == "_" or unicodedata.category(character)[0] in "LN"
        ):
            self._at += 1
        return self._text[start : self._at]

    def _operator(self) -> Operator:
        if self._peek() == "}":
            return Operator.NONE
        found = self._next()
        if found == ":" and self._peek() == "-":
            self._at += 1
            return Operator.IF_EMPTY
        if found not in {":", "-", "?"}:
            self._fail(f"Expected an operator, got {found}")
        return Operator(found)

    def _content(self) -> tuple[str | Reference, ...]:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} variables stand in each other's defaults")
        content = self.items("}")
        self._depth -= 1
        return content

    def _bounds(self) -> tuple[int, ...]:
        offset = self._number(self._until(":}" + _END), "offset")
        if self._peek() == "}":
            return (offset,)
        self._at += 1
        return offset, self._number(self._until("}" + _END), "length")

    def _number(self, written: str, what: str) -> int:
        written = written.strip()
        if not _NUMBER.fullmatch(written):
            self._fail(f'Unable to parse {what}: strconv.Atoi: parsing "{written}": invalid syntax')
        if len(written) > 20 or abs(int(written)) > _LARGEST:
            self._fail(f'Unable to parse {what}: strconv.Atoi: parsing "{written}": value out of range')
        return int(written)

    def _until(self, stops: str) -> str:
        found = _up_to(stops).match(self._text, self._at)
        assert found is not None, "it matches nothing too"
        self._at = found.end()
        return found[0]

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _next(self) -> str:
        found = self._peek()
        self._at += 1
        return found or _END

    def _fail(self, reason: str) -> NoReturn:
        raise InterpolationError(self._text, self._start + 1, reason)


@cache
def _up_to(stops: str) -> re.Pattern[str]:
    return re.compile(f"[^{re.escape(stops)}]*")


def _is_letter(character: str) -> bool:
    return bool(character) and unicodedata.category(character).startswith("L")
