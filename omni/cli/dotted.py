"""Dotted flags and JSON for one option, gathered into one JSON text that the option's own parser judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from omni.config import jsontext
from omni.errors import InputError


def fold(argv: Sequence[str], option: str) -> list[str]:
    """Return *argv* with every `--option.a.b VALUE` and `--option JSON` folded into one `--option JSON`.

    Kebab and snake case are one. Arguments without a dotted form stay as they are, so that JSON errors are the
    parser's. Raises InputError when a key is given twice.
    """
    rest, given = _split(argv, option)
    if not any(path for path, _ in given):
        return list(argv)
    gathered: dict[str, Any] = {}
    for path, value in given:
        where = ".".join((option, *path))
        _merge(gathered, _nest(path, _value(value, where, whole=not path)), option)
    return [*rest, option, json.dumps(gathered)]


def _split(argv: Sequence[str], option: str) -> tuple[list[str], list[tuple[list[str], str]]]:
    rest: list[str] = []
    given: list[tuple[list[str], str]] = []
    queue = list(argv)
    while queue:
        argument = queue.pop(0)
        if argument == "--":
            rest += [argument, *queue]
            break
        name, equals, value = argument.partition("=")
        head, *path = name.split(".")
        if head.replace("_", "-") != option:
            rest.append(argument)
            continue
        if not equals and not queue:
            raise InputError(f"{name} needs a value")
        # The first level is our own word; the deeper ones may be role names and stay as written.
        given.append(
            ([part.replace("-", "_") for part in path[:1]] + path[1:], value if equals else queue.pop(0))
        )
    return rest, given


def _value(text: str, where: str, *, whole: bool) -> Any:
    if not whole and not text.lstrip().startswith("{"):
        return text
    try:
        value = jsontext.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error}") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: beside dotted flags this must be a JSON object, got {text!r}")
    return value


def _nest(path: Sequence[str], value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    return dict(value)


def _merge(into: dict[str, Any], new: dict[str, Any], where: str) -> None:
    for key, value in new.items():
        place = f"{where}.{key}"
        if key not in into:
            into[key] = value
        elif isinstance(into[key], dict) and isinstance(value, dict):
            _merge(into[key], value, place)
        else:
            raise InputError(f"{place} is given twice")
