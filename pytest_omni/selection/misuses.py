"""Uses of our fixtures and marks that would pass without doing what they say; told together, before any test runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import pytest

from omni_hardware.errors import InputError
from pytest_omni.marks import FRESH_PROCESS
from pytest_omni.selection.mark_names import named

_INDIRECT = frozenset({"omni_server", "omni_server_function", "omni_runner", "omni_runner_function"})
_SHOWN_IDS = 20


def complaint(items: list[pytest.Item]) -> str | None:
    """Return what cannot be meant in *items*, each mistake with its tests, or None."""
    found: dict[str, list[str]] = defaultdict(list)
    _find_direct(items, found)
    _find_odd_processes(items, found)
    if not found:
        return None
    lines = ["fixtures and marks that cannot do what they say:"]
    for problem, ids in found.items():
        shown = ids[:_SHOWN_IDS] + ([f"… and {len(ids) - _SHOWN_IDS} more"] if len(ids) > _SHOWN_IDS else [])
        lines += [f"  {problem}", *(f"    {nodeid}" for nodeid in shown)]
    return "\n".join(lines)


def _find_direct(items: Iterable[pytest.Item], found: dict[str, list[str]]) -> None:
    """Find tests that get the parameter itself in the place of a server or an engine."""
    asked = [getattr(item, "fixturenames", ()) for item in items]
    if _INDIRECT.isdisjoint(chain.from_iterable(asked)):
        return
    for item, names in zip(items, asked, strict=True):
        for name in sorted(_INDIRECT.intersection(names)):
            if _is_stand_in(item, name):
                found[
                    f"{name} is parametrized without indirect=True: the test would get the parameters alone, "
                    f'and nothing would be started; write parametrize("{name}", [...], indirect=True)'
                ].append(item.nodeid)


def _is_stand_in(item: pytest.Item, name: str) -> bool:
    # pytest puts a fixture of its own in the place of one that is parametrized directly. Private, but an override of
    # the project's looks no different from outside; without the attribute nobody is refused.
    known: Sequence[Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).get(name, ())
    return bool(known) and str(getattr(known[-1].func, "__module__", "")).startswith("_pytest.")


def _find_odd_processes(items: Iterable[pytest.Item], found: dict[str, list[str]]) -> None:
    """Find marks that ask for a process which there is not."""
    for group, names in named(items):
        if FRESH_PROCESS not in names:
            continue
        from pytest_omni.isolation.fresh_run import spec_of  # most sessions have no such test

        for item in group:
            mark = item.get_closest_marker(FRESH_PROCESS)
            try:
                if mark is not None:
                    spec_of(mark)
            except InputError as error:
                found[str(error)].append(item.nodeid)
