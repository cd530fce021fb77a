"""The hardware words on collected tests, and the plan of each; equal marks are judged once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import repeat

import pytest

from omni_hardware.errors import InputError
from omni_hardware.mark_rules import hardware_words
from omni_hardware.vocabulary import Vocabulary
from pytest_omni.marks import IMPORTED, MARK, Declared, declared_by, mark_of
from pytest_omni.selection.mark_names import siblings
from pytest_omni.selection.placement import Plan, Planner

_Said = tuple[str, ...]


class Plans:
    """Which test has which plan.

    By identity, and not in each test's stash: a node's hash is computed in Python, and a dict for each of 20,000 tests
    is work for the garbage collector too.
    """

    def __init__(self) -> None:
        self._tests: list[pytest.Item] = []  # kept, or their identities could become somebody else's
        self._plans: dict[int, Plan] = {}

    def keep(self, items: list[pytest.Item], plan: Plan) -> None:
        """Remember the plan of *items*, in the place of an earlier one."""
        self._tests += items
        self._plans.update(zip(map(id, items), repeat(plan)))

    def get(self, item: pytest.Item) -> Plan | None:
        """Return the plan of *item*, None where it has none yet."""
        return self._plans.get(id(item))


class Reader:
    """Reads the hardware words off items; what parents say is read once a parent, equal marks are judged once."""

    def __init__(self, planner: Planner, vocabulary: Vocabulary) -> None:
        self._planner = planner
        self._vocabulary = vocabulary
        self._words = frozenset(hardware_words(vocabulary))
        self._above: dict[int, _Said] = {}
        self._plans: dict[tuple[_Said, _Said], Plan] = {}
        self._contents: dict[Declared, str] = {}

    def plans(self, items: Iterable[pytest.Item]) -> Iterator[tuple[Plan, list[pytest.Item]]]:
        """Yield each plan with tests below one parent that share it."""
        for parent, group, marked in siblings(items):
            above = self._said_above(parent)
            if not marked:  # a mistake in what their parents say is the same one for all of them
                yield self._planned(group[0], (above, ())), group
                continue
            for own, alike in self._shared(group).items():
                plan = self._planned(alike[0], (above, own))
                if (above, own) in self._plans:
                    yield plan, alike
                else:
                    yield from ((self._read(item), [item]) for item in alike)

    def _said_above(self, parent: pytest.Item | pytest.Collector | None) -> _Said:
        above = self._above.get(id(parent))
        if above is None:
            above = self._above[id(parent)] = self._said(parent.iter_markers() if parent else ())
        return above

    def _planned(self, item: pytest.Item, key: tuple[_Said, _Said]) -> Plan:
        plan = self._plans.get(key)
        if plan is None:
            plan = self._read(item)
            # a mistake names its own line; of two declarations, it depends on where they stand which one counts
            if not plan.problems and sum(mark.name == MARK for mark in item.own_markers) < 2:
                self._plans[key] = plan
        return plan

    def _read(self, item: pytest.Item) -> Plan:
        marks = list(item.iter_markers())
        if problems := tuple(dict.fromkeys(filter(None, map(self._misuse, marks)))):
            return Plan(problems=problems)
        words = {mark.name for mark in marks} & self._words
        mark = mark_of(item)
        try:
            declared = declared_by(mark).requirement(self._vocabulary) if mark else None
        except InputError as error:
            return Plan(problems=tuple(str(error).splitlines()))
        return self._planner.plan(words, declared)

    def _shared(self, items: list[pytest.Item]) -> dict[_Said, list[pytest.Item]]:
        """Return tests by what they say themselves."""
        found: dict[_Said, list[pytest.Item]] = defaultdict(list)
        for item in items:
            own = item.own_markers
            found[self._said(own) if own else ()].append(item)
        return found

    def _said(self, marks: Iterable[pytest.Mark]) -> _Said:
        """Return what *marks* say, as something with a hash: the names, and a declaration's content."""
        return tuple([self._content(mark) if mark.args or mark.kwargs else mark.name for mark in marks])

    def _misuse(self, mark: pytest.Mark) -> str | None:
        """Return what is wrong with a mark by hand, whatever else is on the test."""
        if mark.name in IMPORTED:
            return f"pytest.mark.{mark.name} is no marker: write `from pytest_omni import {mark.name}` and leave pytest.mark out"
        if mark.name in self._words and (mark.args or mark.kwargs):
            said = [*map(repr, mark.args), *(f"{key}={value!r}" for key, value in mark.kwargs.items())]
            return (
                f"pytest.mark.{mark.name}({', '.join(said)}): a marker by hand takes no arguments; "
                "hardware_test(res={...}, num_cards=..., min_memory=...) says how many and how large"
            )
        return None

    def _content(self, mark: pytest.Mark) -> str:
        if mark.name != MARK:
            return f"{mark.name}()" if mark.name in self._words or mark.name in IMPORTED else mark.name
        declared = declared_by(mark)
        if declared not in self._contents:
            self._contents[declared] = f"{declared.arguments} {declared.only} {declared.misuse}"
        return self._contents[declared]
