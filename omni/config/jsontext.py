"""JSON that a person or a client wrote: a key given twice is a mistake, and every refusal is one ValueError."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

_DIGITS = 400  # the largest float has 309; Python itself refuses thousands, in words of its own


class DoubledKeyError(ValueError):
    """One object gives *key* twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"key {key!r} is given twice in one object; keep one")
        self.key = key


def loads(text: str) -> Any:
    """Return the value of *text*.

    Raises json.JSONDecodeError for what is no JSON, DoubledKeyError, and a plain ValueError for what is too deep or
    has a number too long to read.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_doubles, parse_int=_whole)
    except RecursionError:
        raise ValueError("nested deeper than can be read") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise DoubledKeyError(next(key for key, count in times.items() if count > 1))
    return content


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too long to be read")
    return int(digits)
