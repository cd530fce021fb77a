"""Which markers there are and which a test carries, at the price of a few attribute reads a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest

_NOTHING: frozenset[str] = frozenset()
_END_OF_NAME = re.compile(r"[:(]")


def declared(config: pytest.Config) -> tuple[str, ...]:
    """Return the name of every marker in the ``markers`` setting, pytest's, ours and the project's."""
    return tuple(_END_OF_NAME.split(line, maxsplit=1)[0].strip() for line in config.getini("markers"))


def named(items: Iterable[pytest.Item]) -> Iterator[tuple[pytest.Item, frozenset[str]]]:
    """Yield each item with the names of its markers, inherited ones included; equal sets are the same object.

    Tests stand beside their siblings, and most carry what a sibling carries: a set is built once for all of them.
    """
    parent: object = None
    above = _NOTHING
    sets: dict[frozenset[str], frozenset[str]] = {}
    joined: dict[tuple[str, ...], frozenset[str]] = {}
    for item in items:
        if item.parent is not parent:
            parent = item.parent
            names = frozenset(mark.name for mark in item.parent.iter_markers()) if item.parent else _NOTHING
            above = sets.setdefault(names, names)
            joined = {}
        own = item.own_markers
        if not own:
            yield item, above
            continue
        key = tuple([mark.name for mark in own])
        found = joined.get(key)
        if found is None:
            names = above.union(key)
            found = joined[key] = sets.setdefault(names, names)
        yield item, found
