"""How a test says what hardware it needs: ``@hardware_test`` above it, ``hardware_marks`` in a list of marks.

Nothing is judged where it is written: which SKUs exist is the project's to say, and all mistakes are told together
once everything is collected.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, Unpack

import pytest

from omni_hardware.errors import InputError
from omni_hardware.requirement_checks import Misuse, call_problems

if TYPE_CHECKING:
    from omni_hardware.requirements import Requirement
    from omni_hardware.vocabulary import Vocabulary

MARK = "hardware"
FRESH_PROCESS = "fresh_process"
MARKER_LINE = (
    f"{MARK}: what hardware a test needs on each platform; written by hardware_test and hardware_marks"
)
# what people write as markers, since it stands where one would
IMPORTED = ("hardware_test", "hardware_marks")
# Made before any session: in an unarmed one strict markers would break the import that our own message explains.
_HARDWARE = pytest.mark.hardware


class HardwareArguments(TypedDict, total=False):
    """The arguments of hardware_test and hardware_marks.

    res: platform → SKU, or a list of SKUs of which any will do; "any" is any device, and the one SKU of cpu.
    num_cards: how many cards, one number or platform → number; 1 where nothing is said.
    min_memory: the total memory of each card as "40GiB", one size or platform → size; no limit where nothing is said.
    expand: "platform" makes one variant of the test a platform, test[cuda], test[rocm].
    """

    res: Required[Mapping[str, str | Sequence[str]]]
    num_cards: int | Mapping[str, int]
    min_memory: str | Mapping[str, str]
    expand: Literal["platform"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """What one call of hardware_test or hardware_marks said; judged with the project's words, not before.

    where: "file:line" of the call. misuse: what makes the call wrong whatever its arguments are.
    only: the platform of a variant that ``expand`` made.
    """

    by: str
    where: str
    arguments: Mapping[str, object]
    misuse: Misuse | None = None
    only: str | None = None

    def platforms(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        """Return the platforms of which ``expand`` makes variants; () where it is not asked for. Raises InputError."""
        return self._built(vocabulary).platforms if self.arguments.get("expand") else ()

    def requirement(self, vocabulary: Vocabulary) -> Requirement:
        """Return what one test requires; InputError has every problem of the call, one a line, with file and line."""
        whole = self._built(vocabulary)
        if self.only is None and whole.expand:
            raise InputError(f"{self.where}: {self.by}: {Misuse.NOT_EXPANDED}")
        return whole if self.only is None else whole.only(self.only)

    def _built(self, vocabulary: Vocabulary) -> Requirement:
        found = [self.misuse] if self.misuse else call_problems(self.arguments, vocabulary)
        if found:
            raise InputError("\n".join(f"{self.where}: {self.by}: {problem}" for problem in found))
        from omni_hardware.requirements import build  # an unarmed session never comes here

        return build(vocabulary=vocabulary, **self.arguments)


class _Marks(list[pytest.MarkDecorator]):
    """A list of marks that is also its one mark, for who puts it into a list of marks.

    Written above a test, it says so at collection instead of breaking the import.
    """

    @property
    def mark(self) -> pytest.Mark:
        """The mark, where pytest looks for it."""
        return self[0].mark

    @property
    def name(self) -> str:
        """The mark's name."""
        return self[0].name

    def __call__(self, test: Any) -> Any:
        return _decorator(replace(declared_by(self[0].mark), misuse=Misuse.AS_DECORATOR))(test)


def hardware_test(*misplaced: Any, **arguments: Unpack[HardwareArguments]) -> pytest.MarkDecorator:
    """Return the decorator that says what hardware a test or class needs: ``@hardware_test(res={"cuda": "H100"})``.

    The arguments are those of HardwareArguments. A wrong one is a usage error once all tests are collected.
    """
    bare = bool(misplaced) and callable(misplaced[0])
    misuse = Misuse.BARE if bare else Misuse.POSITIONAL if misplaced else None
    decorator = _decorator(Declared("hardware_test", _caller(), arguments, misuse))
    # without parentheses we are the decorator: a test that is no function any more would never be collected
    return decorator(misplaced[0]) if bare else decorator


def hardware_marks(*misplaced: object, **arguments: Unpack[HardwareArguments]) -> list[pytest.MarkDecorator]:
    """Return the marks of hardware_test as a list, for ``pytestmark`` and for ``pytest.param(..., marks=...)``."""
    misuse = Misuse.POSITIONAL if misplaced else None
    return _Marks([_decorator(Declared("hardware_marks", _caller(), arguments, misuse))])


def mark_of(node: pytest.Item) -> pytest.Mark | None:
    """Return the ``hardware`` mark that counts for a test: its parameter's, its own, its class's, its module's."""
    for level in node.iter_parents():
        found = [mark for mark in level.own_markers if mark.name == MARK]
        if found:
            return found[0] if len(found) == 1 else _closest(level, found)
    return None


def declared_by(mark: pytest.Mark) -> Declared:
    """Return what *mark* declares; one that was written by hand is a misuse."""
    if is_declared(mark):
        declared: Declared = mark.args[0]
        return declared
    return Declared(f"pytest.mark.{MARK}", "a mark by hand", {}, misuse=Misuse.BY_HAND)


def is_declared(mark: pytest.Mark) -> bool:
    """Return whether *mark* was written by hardware_test or hardware_marks; any project may have a mark of that name."""
    return bool(mark.args) and isinstance(mark.args[0], Declared)


def variant(declared: Declared, platform: str) -> pytest.MarkDecorator:
    """Return the mark of the variant for *platform*."""
    return _decorator(replace(declared, only=platform))


def _decorator(declared: Declared) -> pytest.MarkDecorator:
    return _HARDWARE.with_args(declared)


def _closest(node: object, found: list[pytest.Mark]) -> pytest.Mark:
    """Return the last of several marks on one node, or one that says why they contradict each other."""
    written = getattr(node.obj, "pytestmark", ()) if isinstance(node, pytest.Function) else found
    own = [mark for mark in found if mark in written]
    of_parameters = found[len(own) :]
    if len(of_parameters) > 1:
        expanded = any(declared_by(mark).only for mark in of_parameters)
        misuse = Misuse.MIXED if expanded else Misuse.TWO_PARAMETERS
        return _decorator(replace(declared_by(of_parameters[-1]), misuse=misuse)).mark
    # a class also lists what its base classes say, base first
    if len(own) > 1 and not of_parameters and not isinstance(node, pytest.Class):
        return _decorator(replace(declared_by(own[-1]), misuse=Misuse.TWICE)).mark
    return found[-1]


def _caller() -> str:
    frame = sys._getframe(2)  # noqa: SLF001 the documented way to a caller's line
    path = frame.f_code.co_filename
    return f"{path.removeprefix(os.path.join(os.getcwd(), ''))}:{frame.f_lineno}"  # noqa: PTH109, PTH118 thrice as fast
