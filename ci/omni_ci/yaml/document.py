"""Values that remember where they were written, so that every message can say file, line and column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from omni_hardware.errors import did_you_mean


class Where(NamedTuple):
    """A place in a file; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document, at one place."""

    where: Where
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class LocatedDict(dict[str, Any]):
    """A mapping with the place of itself and of its keys, and the text of its unquoted numbers and booleans."""

    def __init__(self, where: Where) -> None:
        super().__init__()
        self.where = where
        self.keys_at: dict[str, Where] = {}
        self.texts: dict[str, str] = {}
        self.size = 1
        self.depth = 1


class LocatedList(list[Any]):
    """A sequence with the place of itself and of its items."""

    def __init__(self, where: Where) -> None:
        super().__init__()
        self.where = where
        self.items_at: list[Where] = []
        self.size = 1
        self.depth = 1


def locate(value: Any, path: Sequence[str | int]) -> Where | None:
    """Return the place *path* leads to, as far as it can be followed; None for a value without places."""
    where: Where | None = getattr(value, "where", None)
    for part in path:
        match value, part:
            case LocatedDict(), str() if part in value.keys_at:
                where, value = value.keys_at[part], value.get(part)
            case LocatedList(), int() if part < len(value):
                where, value = value.items_at[part], value[part]
            case _:
                continue
    return where


def plain(value: Any) -> Any:
    """Return *value* with ordinary dicts and lists all the way down, nothing shared."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def merged(below: Any, above: Any) -> Any:
    """Return *below* overridden by *above*: mappings merge by name, `null` removes, all else replaces."""
    if not (isinstance(below, LocatedDict) and isinstance(above, LocatedDict)):
        return above
    both = LocatedDict(above.where)
    for layer in (below, above):
        for key, value in layer.items():
            both.keys_at[key] = layer.keys_at[key]  # kept for a removed key: "missing" points at its removal
            both.texts.pop(key, None)
            if value is None:
                both.pop(key, None)
                continue
            both[key] = merged(both.get(key), value)
            if key in layer.texts:
                both.texts[key] = layer.texts[key]
    return both


def idle_removals(below: Any, above: Any, path: str = "") -> Iterator[Problem]:
    """Yield each `null` of *above* that takes nothing away, since *below* has no such name."""
    if not (isinstance(below, LocatedDict) and isinstance(above, LocatedDict)):
        return
    for key, value in above.items():
        if value is not None:
            yield from idle_removals(below.get(key), value, f"{path}{key}.")
        elif key not in below:
            what = f"{path}{key}: null takes a default away, and there is none{did_you_mean(key, below)}"
            yield Problem(above.keys_at[key], what)


def flattened(value: Any, where: Where) -> Iterator[tuple[Any, Where]]:
    """Yield the leaves of nested lists (aliased lists inside lists) with their places; a text is one leaf."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from flattened(item, value.items_at[index] if isinstance(value, LocatedList) else where)
    else:
        yield value, where
