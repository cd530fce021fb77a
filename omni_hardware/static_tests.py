"""The tests that a module declares, with the marks of each, read from its syntax tree: nothing is imported.

A test's marks stand on levels: the module's pytestmark, its classes with their bases, its own decorators, and what a
parametrization adds to a single variant.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omni_hardware.requirement_checks import OPEN, call_problems
from omni_hardware.requirements import Requirement, build
from omni_hardware.static_source import NOTHING, Call, Marks, Source, statements
from omni_hardware.vocabulary import DEFAULT, Vocabulary

Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_COMBINATIONS = 256  # of the values of several parametrizations of one test


@dataclass(frozen=True, slots=True)
class Declared:
    """A class or function of a module; *levels* holds its marks, the module's first, its own last."""

    node: ast.ClassDef | Function
    classes: tuple[ast.ClassDef, ...]
    levels: tuple[Marks, ...]

    @property
    def name(self) -> str:
        """Its name within the module, as pytest spells it: "TestA::test_b"."""
        return "::".join(node.name for node in (*self.classes, self.node))


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of a test: the marks written by hand, and the declarations, the closest last.

    *of_parameters* are those declarations that a parameter brings; complete: False where there may be more marks.
    """

    marks: Marks
    of_parameters: tuple[Call, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every declaration of what the test needs; the last one counts."""
        return self.marks.calls

    @property
    def names(self) -> frozenset[str]:
        """The marks written by hand."""
        return frozenset(word.name for word in self.marks.words)


class Declarations:
    """What one module declares."""

    def __init__(self, tree: ast.Module, vocabulary: Vocabulary = DEFAULT) -> None:
        self.source = Source(tree)
        self._tree = tree
        self._vocabulary = vocabulary
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def walk(self) -> Iterator[Declared]:
        """Yield the classes and functions that pytest could see, each before what it holds."""
        yield from self._walk(self._tree.body, (), (self._pytestmark(self._tree.body),))

    def requirements(self, calls: Iterable[Call]) -> list[Requirement | None]:
        """Return what the closest call requires, a variant each; [None] without one, [] where it cannot be read."""
        closest = list(calls)[-1:]
        if not closest:
            return [None]
        arguments = self.arguments(closest[0])
        if _has_open(arguments) or call_problems(arguments, self._vocabulary):
            return []
        whole = build(vocabulary=self._vocabulary, **arguments)
        return [whole.only(platform) for platform in whole.platforms] if whole.expand else [whole]

    def arguments(self, call: Call) -> dict[str, object]:
        """Return the named arguments of a declaration; OPEN stands where only run time knows."""
        if not isinstance(call.node, ast.Call) or call.node.args:
            return {"res": OPEN}
        found = {word.arg: self.source.value(word.value) for word in call.node.keywords if word.arg}
        more = any(word.arg is None for word in call.node.keywords)  # **arguments
        return {"res": OPEN, **found} if more else found

    def _walk(
        self, body: Iterable[ast.stmt], classes: tuple[ast.ClassDef, ...], levels: tuple[Marks, ...]
    ) -> Iterator[Declared]:
        for node in statements(body):
            if isinstance(node, ast.ClassDef):
                inner = (*levels, self._class(node, frozenset()))
                yield Declared(node, classes, inner)
                yield from self._walk(node.body, (*classes, node), inner)
            elif isinstance(node, Function):
                yield Declared(node, classes, (*levels, self.source.marks(node.decorator_list)))

    def _class(self, node: ast.ClassDef, seen: frozenset[str]) -> Marks:
        """Return the marks of a class, those of its base classes in this module first."""
        bases = [
            self._classes[base.id]
            for base in node.bases
            if isinstance(base, ast.Name) and base.id in self._classes and base.id not in seen
        ]
        inherited = sum((self._class(base, seen | {node.name}) for base in bases), NOTHING)
        elsewhere = Marks(complete=len(bases) == len(node.bases))
        return inherited + elsewhere + self.source.marks(node.decorator_list) + self._pytestmark(node.body)

    def _pytestmark(self, body: Iterable[ast.stmt]) -> Marks:
        values = [
            node.value
            for node in statements(body)
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)
        ]
        return self.source.marks(values)


def variants(levels: tuple[Marks, ...]) -> Iterator[Variant]:
    """Yield a test's variants, one a combination of what its parameters add, MOST_COMBINATIONS at most."""
    parameters = [alternatives for marks in levels for alternatives in marks.parameters]
    combinations = itertools.product(*(list(dict.fromkeys(values)) for values in parameters))
    for chosen in itertools.islice(combinations, MOST_COMBINATIONS):
        marks = sum((*levels, *chosen), NOTHING)
        yield Variant(marks, tuple(call for one in chosen for call in one.calls))


def _has_open(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_open(part) for pair in value.items() for part in pair)
    return any(map(_has_open, value)) if isinstance(value, list) else value is OPEN
