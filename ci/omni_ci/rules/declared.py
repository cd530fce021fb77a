"""The tests that a test file declares, and what each needs: read from its syntax tree, nothing is imported."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from omni_hardware.requirements import Need, Requirement, from_marks, marks_on
from omni_hardware.static_source import Marks
from omni_hardware.static_tests import Declarations, Declared, Function, variants
from omni_hardware.vocabulary import DEFAULT, Vocabulary

# What projects call the number of devices that a decorator of theirs asks for.
_COUNTS = ("num_cards", "num_gpus")
_COUNTING = "device_count"
# Characters of a file: a syntax tree takes a hundred times the memory of its text.
READ_AT_MOST = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of a test.

    names: the marks written by hand; requirement: what hardware_test says, None without one. is_exact: False where
    there may be more of either.
    """

    names: frozenset[str]
    requirement: Requirement | None
    is_exact: bool

    def marks(self, platform: str | None, vocabulary: Vocabulary) -> frozenset[str]:
        """Return its marks where *platform* is asked for, those that its requirement puts on included."""
        if self.requirement is None or platform is None:
            return self.names
        return self.names | frozenset(marks_on(self.requirement, platform, vocabulary))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    """A test with its variants; *cards* is what a decorator or a skipif of another project asks for, 0 without one."""

    name: str
    line: int
    variants: tuple[Variant, ...]
    cards: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """Why a test does not run on a machine: too few cards, or another device than it needs."""

    because: str
    is_too_few: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """Why nothing can be said of a module, and the line that says it."""

    because: str
    line: int = 1


def declared_tests(text: str, vocabulary: Vocabulary = DEFAULT) -> tuple[DeclaredTest, ...] | None:
    """Return the tests of a module, None where its text is no Python."""
    tree = parsed(text)
    if isinstance(tree, Unread):
        return None
    declarations = Declarations(tree, vocabulary)
    return tuple(_test(one, declarations) for one in declarations.walk() if _is_test(one))


def parsed(text: str) -> ast.Module | Unread:
    """Return the syntax tree of a module, or why it has none; bytes that are no UTF-8 stand in *text* as surrogates."""
    if len(text) > READ_AT_MOST:
        return Unread(f"has {len(text):,} characters, and lint reads {READ_AT_MOST:,} of a file at most")
    python = f"Python {sys.version_info.major}.{sys.version_info.minor} cannot parse it"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's string is not ours to tell
            # as bytes, so that a `coding:` line counts
            return ast.parse(text.encode("utf-8", "surrogateescape"))
    except SyntaxError as error:
        return Unread(f"{python}: {error.msg}", error.lineno or 1)
    except ValueError as error:
        return Unread(f"{python}: {error}")
    except (RecursionError, MemoryError):
        return Unread(f"{python}: it is nested too deeply")


def need_of(variant: Variant, platform: str | None, vocabulary: Vocabulary) -> Need | None:
    """Return what *variant* needs on *platform*; None where it needs nothing, or is no test for that platform."""
    requirement = variant.requirement or from_marks(variant.names, vocabulary)
    row = vocabulary.platform(platform) if platform else None
    return requirement.on(row.name, row.runs_items_of) if requirement and row else None


def skipped(
    test: DeclaredTest,
    variant: Variant,
    *,
    platform: str | None,
    sku: str | None,
    cards: int,
    vocabulary: Vocabulary,
) -> Skipped | None:
    """Return why *variant* never runs on *cards* devices of *platform*, None where it may."""
    need = need_of(variant, platform, vocabulary)
    wanted = max(test.cards, need.cards if need else 0)
    if need and sku and need.skus and sku not in need.skus:
        return Skipped(f"needs {need}", is_too_few=False)
    if wanted > cards:
        return Skipped(
            f"needs {need if need and need.cards >= wanted else f'{wanted} cards'}", is_too_few=True
        )
    return None


def _is_test(one: Declared) -> bool:
    in_classes = all(node.name.startswith("Test") or node.bases for node in one.classes)
    return isinstance(one.node, Function) and one.node.name.startswith("test") and in_classes


def _test(one: Declared, declarations: Declarations) -> DeclaredTest:
    decorators = [decorator for node in (*one.classes, one.node) for decorator in node.decorator_list]
    return DeclaredTest(
        name=one.name,
        line=one.node.lineno,
        variants=tuple(dict.fromkeys(_variants(one.levels, declarations))),
        cards=max((_cards_of(decorator) for decorator in decorators), default=0),
    )


def _variants(levels: tuple[Marks, ...], declarations: Declarations) -> Iterator[Variant]:
    for one in variants(levels):
        requirements = declarations.requirements(one.calls)
        for requirement in requirements or [None]:
            yield Variant(
                names=one.names,
                requirement=requirement,
                is_exact=one.marks.complete and bool(requirements),
            )


def _cards_of(decorator: ast.expr) -> int:
    """Return the devices that a decorator asks for: `num_gpus=4`, or a skipif on `device_count() < 4`."""
    if not isinstance(decorator, ast.Call):
        return 0
    named = [keyword.value for keyword in decorator.keywords if keyword.arg in _COUNTS]
    counted = [value for condition in decorator.args[:1] for value in _below(condition)]
    return max((number for value in (*named, *counted) if (number := _number(value))), default=0)


def _below(condition: ast.expr) -> Iterator[ast.expr]:
    match condition:
        case ast.Compare(ast.Call(func), [ast.Lt()], [value]) if _called(func) == _COUNTING:
            yield value
        case ast.BoolOp(ast.Or(), values):
            for value in values:
                yield from _below(value)


def _called(func: ast.expr) -> str | None:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", None)


def _number(value: ast.expr) -> int:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, int) else 0
