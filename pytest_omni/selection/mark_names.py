"""Which markers there are and which a test carries, at the price of a few attribute reads a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import pytest

_Parent = pytest.Item | pytest.Collector | None
_NOTHING: frozenset[str] = frozenset()
_END_OF_NAME = re.compile(r"[:(]")
_PARENT, _OWN_MARKERS = attrgetter("parent"), attrgetter("own_markers")


def declared(config: pytest.Config) -> tuple[str, ...]:
    """Return the name of every marker in the ``markers`` setting, pytest's, ours and the project's."""
    return tuple(_END_OF_NAME.split(line, maxsplit=1)[0].strip() for line in config.getini("markers"))


def siblings(items: Iterable[pytest.Item]) -> Iterator[tuple[_Parent, list[pytest.Item], bool]]:
    """Yield tests that stand side by side, with their parent and whether any of them has marks of its own."""
    for parent, group in groupby(items, _PARENT):
        together = list(group)
        yield parent, together, any(map(_OWN_MARKERS, together))


def marks_counted(items: Iterable[pytest.Item]) -> list[int]:
    """Return how many marks of its own each test has."""
    return list(map(len, map(_OWN_MARKERS, items)))


def marks_above(items: Iterable[pytest.Item]) -> dict[int, int]:
    """Return how many marks tests inherit, by the identity of their parent: a file or class may be marked late too."""
    parents = {id(parent): parent for parent, _ in groupby(map(_PARENT, items))}
    return {
        key: sum(len(node.own_markers) for node in parent.iter_parents()) if parent else 0
        for key, parent in parents.items()
    }


def named(items: Iterable[pytest.Item]) -> Iterator[tuple[list[pytest.Item], frozenset[str]]]:
    """Yield tests with the names of their markers, inherited ones included; equal sets are the same object.

    Tests that stand side by side and carry the same come together: a suite of 20,000 is a few hundred groups.
    """
    sets: dict[frozenset[str], frozenset[str]] = {}
    for parent, group, marked in siblings(items):
        names = frozenset(mark.name for mark in parent.iter_markers()) if parent else _NOTHING
        above = sets.setdefault(names, names)
        if not marked:
            yield group, above
            continue
        joined: dict[tuple[str, ...], frozenset[str]] = {(): above}
        for own, alike in _alike(group):
            if own not in joined:
                names = above.union(own)
                joined[own] = sets.setdefault(names, names)
            yield alike, joined[own]


def _alike(group: list[pytest.Item]) -> Iterator[tuple[tuple[str, ...], list[pytest.Item]]]:
    together: list[pytest.Item] = []
    current: tuple[str, ...] = ()
    # groupby's key would be one more call for each test, and most have no marks of their own
    for item in group:
        own = tuple([mark.name for mark in item.own_markers]) if item.own_markers else ()
        if own != current and together:
            yield current, together
            together = []
        current = own
        together.append(item)
    yield current, together
