"""Where one test belongs: its marks and the asked platform in, a plan with reasons out; no pytest state, no probe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from omni_hardware.mark_rules import conflicts
from omni_hardware.requirements import Need, Requirement, from_marks, marks_on
from omni_hardware.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Plan:
    """What the marks of a test mean on the asked platform.

    need: None = runs anywhere. marks: derived ones, put on before ``-m`` is judged. elsewhere: why the asked platform
    is not one of the test's, "" where it is. problems: what is wrong with the marks, in words for people.
    """

    requirement: Requirement | None = None
    need: Need | None = None
    marks: tuple[pytest.Mark, ...] = ()
    keywords: Mapping[str, pytest.Mark] = field(default_factory=dict)
    elsewhere: str = ""
    problems: tuple[str, ...] = ()


class _Identities:
    """A set of marks, which have no hash, by what they are instead of what they look like."""

    def __init__(self, marks: Iterable[pytest.Mark]) -> None:
        self._ids = frozenset(map(id, marks))

    def __contains__(self, mark: pytest.Mark) -> bool:
        return id(mark) in self._ids


class Planner:
    """Plans for one asked platform; equal marks are judged once, so that a large suite costs a look-up an item."""

    def __init__(self, asked: str, vocabulary: Vocabulary) -> None:
        self._asked = asked
        self._vocabulary = vocabulary
        row = vocabulary.platform(asked)
        self._also = row.runs_items_of if row else ()
        self._known: dict[tuple[frozenset[str], Requirement | None], Plan] = {}
        self._marks: dict[str, pytest.Mark] = {}

    @property
    def derived(self) -> _Identities:
        """The marks that plans put on; one by hand may look the same."""
        return _Identities(self._marks.values())

    @property
    def needs_devices(self) -> bool:
        """Whether any test that was planned needs one."""
        return any(plan.need is not None and plan.need.cards for plan in self._known.values())

    def plan(self, names: Collection[str], declared: Requirement | None) -> Plan:
        """Return the plan for the hardware words *names*, written by hand, and a declared requirement."""
        key = (frozenset(names), declared)
        if key not in self._known:
            self._known[key] = self._decide(*key)
        return self._known[key]

    def _decide(self, names: frozenset[str], declared: Requirement | None) -> Plan:
        problems = tuple(conflicts(names, declared, self._vocabulary))
        requirement = declared or from_marks(names, self._vocabulary)
        if problems or requirement is None:
            return Plan(requirement, problems=problems)
        need = requirement.on(self._asked, also=self._also)
        if need is None:
            return Plan(
                requirement, elsewhere=f"made for {_listed(requirement.platforms)}, not for {self._asked}"
            )
        words = marks_on(requirement, self._asked, self._vocabulary)
        marks = {word: self._mark(word) for word in words if word not in names}
        return Plan(requirement, need, tuple(marks.values()), marks)

    def _mark(self, name: str) -> pytest.Mark:
        if name not in self._marks:
            self._marks[name] = getattr(pytest.mark, name).mark
        return self._marks[name]


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
