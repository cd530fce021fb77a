"""What a test module says about marks, read from its syntax tree: nothing is imported, nothing is run.

Names are followed to imports and to module-level assignments. What only run time knows is OPEN, or makes a set of
marks incomplete.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omni_hardware.requirement_checks import OPEN

DECLARING = ("hardware_test", "hardware_marks")
_OURS = {f"{home}.{name}": name for home in ("pytest_omni", "pytest_omni.marks") for name in DECLARING}
_MARK = "pytest.mark."


@dataclass(frozen=True, slots=True)
class Word:
    """One ``pytest.mark.NAME``."""

    name: str
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Call:
    """One ``hardware_test`` or ``hardware_marks``; *node* is no ast.Call where the parentheses are missing."""

    by: str
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one place; *parameters* has, a parametrization, what each of its values adds.

    complete: False where something could not be read.
    """

    words: tuple[Word, ...] = ()
    calls: tuple[Call, ...] = ()
    parameters: tuple[tuple[Marks, ...], ...] = ()
    complete: bool = True

    def __add__(self, other: Marks) -> Marks:
        return Marks(
            self.words + other.words,
            self.calls + other.calls,
            self.parameters + other.parameters,
            self.complete and other.complete,
        )


NOTHING = Marks()
UNREADABLE = Marks(complete=False)


class Source:
    """A module's names, and what its expressions mean."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported = dict(_imports(tree))
        self._assigned = dict(_assignments(tree))

    def path(self, node: ast.expr) -> str | None:
        """Return the dotted path that a name or attribute stands for ("pytest.mark.H100"), or None."""
        names: list[str] = []
        for _ in range(len(self._assigned) + 1):
            while isinstance(node, ast.Attribute):
                names.append(node.attr)
                node = node.value
            if not isinstance(node, ast.Name):
                return None
            if node.id in self._imported:
                return ".".join((self._imported[node.id], *reversed(names)))
            if node.id not in self._assigned:
                return None
            node = self._assigned[node.id]
        return None

    def declaring(self, node: ast.expr) -> str | None:
        """Return "hardware_test" or "hardware_marks" where *node* names it."""
        return _OURS.get(self.path(node) or "")

    def marks(self, nodes: Iterable[ast.expr]) -> Marks:
        """Return what the expressions of decorators or of a list of marks put on."""
        return sum((self._marks(node, frozenset()) for node in nodes), NOTHING)

    def value(self, node: ast.expr) -> object:
        """Return what a literal is worth; OPEN stands where only run time knows."""
        return self._value(node, frozenset())

    def _marks(self, node: ast.expr, seen: frozenset[str]) -> Marks:
        match node:
            case ast.List(elts) | ast.Tuple(elts):
                return sum((self._marks(element, seen) for element in elts), NOTHING)
            case ast.Starred(value):
                return self._marks(value, seen)
            case ast.BinOp(left, ast.Add(), right):
                return self._marks(left, seen) + self._marks(right, seen)
            case ast.Name(name) if name in self._assigned and name not in seen:
                return self._marks(self._assigned[name], seen | {name})
        return self._mark(node)

    def _mark(self, node: ast.expr) -> Marks:
        called = node.func if isinstance(node, ast.Call) else node
        path = self.path(called) or ""
        if path in _OURS:
            return Marks(calls=(Call(_OURS[path], node),))
        if path == f"{_MARK}parametrize" and isinstance(node, ast.Call):
            return Marks(parameters=(tuple(self._alternatives(node)),))
        if path.startswith(_MARK):
            return Marks(words=(Word(path.removeprefix(_MARK).partition(".")[0], node),))
        return NOTHING if path.startswith("pytest.") else UNREADABLE

    def _alternatives(self, call: ast.Call) -> Iterator[Marks]:
        named = [keyword.value for keyword in call.keywords if keyword.arg == "argvalues"]
        for values in (*call.args[1:2], *named):
            yield from self._values(values, frozenset())

    def _values(self, node: ast.expr, seen: frozenset[str]) -> Iterator[Marks]:
        match node:
            case ast.List(elts) | ast.Tuple(elts):
                for element in elts:
                    yield from (
                        self._values(element, seen)
                        if isinstance(element, ast.Starred)
                        else (self._one(element),)
                    )
            case ast.Starred(value):
                yield from self._values(value, seen)
            case ast.BinOp(left, ast.Add(), right):
                yield from self._values(left, seen)
                yield from self._values(right, seen)
            case ast.Name(name) if name in self._assigned and name not in seen:
                yield from self._values(self._assigned[name], seen | {name})
            case _:
                yield UNREADABLE

    def _one(self, node: ast.expr) -> Marks:
        """Return what one value of a parametrization adds; a name or call from elsewhere may be a pytest.param."""
        if isinstance(node, ast.Name) and node.id in self._assigned:
            node = self._assigned[node.id]
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return NOTHING
        path = self.path(node.func if isinstance(node, ast.Call) else node) or ""
        if isinstance(node, ast.Call) and path == "pytest.param":
            return self.marks(keyword.value for keyword in node.keywords if keyword.arg == "marks")
        return NOTHING if path.startswith("pytest_omni.") else UNREADABLE

    def _value(self, node: ast.expr, seen: frozenset[str]) -> object:
        match node:
            case ast.Constant(value):
                return value
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return -value
            case ast.List(elts) | ast.Tuple(elts) if not any(isinstance(item, ast.Starred) for item in elts):
                return [self._value(element, seen) for element in elts]
            case ast.Dict(keys, values):
                return {
                    self._key(key, seen): self._value(value, seen)
                    for key, value in zip(keys, values, strict=True)
                }
            case ast.Name(name) if name in self._assigned and name not in seen:
                return self._value(self._assigned[name], seen | {name})
        return OPEN

    def _key(self, node: ast.expr | None, seen: frozenset[str]) -> object:
        value = OPEN if node is None else self._value(node, seen)
        return OPEN if isinstance(value, list | dict) else value


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module or class, those below if, try and with included, never a function's."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from statements(getattr(statement, field, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from statements(handler.body)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in statements(tree.body):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for alias in statement.names:
                yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module gives one value, once and unconditionally."""
    unconditional = {id(statement) for statement in tree.body}
    found: dict[str, list[ast.expr | None]] = {}
    for statement in statements(tree.body):
        for target, value in _targets(statement):
            found.setdefault(target, []).append(value if id(statement) in unconditional else None)
    for name, values in found.items():
        if len(values) == 1 and values[0] is not None:
            yield name, values[0]


def _targets(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    match statement:
        case ast.Assign(targets, value):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, value
                else:
                    yield from ((node.id, None) for node in ast.walk(target) if isinstance(node, ast.Name))
        case ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
            yield name, value
        case ast.AugAssign(ast.Name(name)) | ast.For(ast.Name(name)):
            yield name, None
