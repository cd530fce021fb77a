"""The kinds of arguments that several commands take, and what none of them may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from omni_hardware.errors import InputError

_A_FILE = "a file or folder"


def whole_number(_kind: Any, tokens: Sequence[Token]) -> int:
    """Return the number of an argument. Raises InputError for one with a fraction, which is none that was meant."""
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        raise InputError(f"{token.keyword or 'the argument'} {token.value!r} is no whole number") from None


Words = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]
Whole = Annotated[int, Parameter(converter=whole_number)]
KnownKeys = Words
"""The flag for keys of steps that live only in Buildkite."""


def known_keys_of(values: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the keys that `--known-key` gives. Raises InputError where it names nothing."""
    return named("--known-key", values, "the key of a step")


def named(flag: str, values: tuple[str, ...] | None, what: str) -> tuple[str, ...]:
    """Return the values of *flag*, () where it was not given. Raises InputError for a flag that names nothing.

    `--changed $(a command that printed nothing)` would otherwise ask another question than the one meant.
    """
    if values is not None and not all(values or ("",)):
        raise InputError(f"{flag} names nothing; give it {what}, or leave it out")
    return values or ()


def one_named(flag: str, value: str | None, what: str = _A_FILE) -> str | None:
    """Return the value of *flag*, None where it was not given. Raises InputError for `--base "$NOT_SET"`."""
    named(flag, None if value is None else (value,), what)
    return value
