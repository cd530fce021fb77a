"""Which tests a step's runs select, and whether its hardware can run them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from omni_ci.rules.context import Context
from omni_ci.rules.declared import DeclaredTest, Skipped, Variant, skipped
from omni_ci.rules.jobs import Job
from omni_ci.shell.runs import PytestRun
from omni_hardware.expression import Expression, ExpressionError, parse


@dataclass(frozen=True, slots=True)
class Placement:
    """Tests of a file that a step's `-m` selects, alike in marks and needs, and why its hardware skips them.

    skipped is None where they may run. *id* names the tests, whatever the step.
    """

    file: str
    tests: tuple[DeclaredTest, ...]
    skipped: Skipped | None

    @property
    def id(self) -> tuple[str, int]:
        """The place of the first of the tests."""
        return self.file, self.tests[0].line


@dataclass(frozen=True, slots=True)
class _Machine:
    platform: str
    sku: str | None
    cards: int


def placements(job: Job, context: Context) -> tuple[Placement, ...]:
    """Return the tests that *job* selects for certain; nothing where its hardware is not known."""
    if job.cards is None or job.platform is None:
        return ()
    machine = _Machine(job.platform, job.sku, job.cards)
    found: dict[Hashable, Placement] = {}
    for run in job.runs:
        expression, files = expression_of(run), context.test_paths.of_run(run).files
        key = (placements, files, expression and expression.text, machine)
        for one in context.once(key, lambda: tuple(_placed(files, expression, machine, context))):  # noqa: B023 - asked at once
            found.setdefault((one.id, one.skipped), one)
    return tuple(found.values())


def selected_files(job: Job, context: Context) -> frozenset[str]:
    """Return the test files of which *job* runs a test, or may."""
    found: set[str] = set()
    for run in job.runs:
        files = context.test_paths.of_run(run).files
        key = (selected_files, files, run.marks, job.platform)
        found |= context.once(
            key,
            lambda: frozenset(file for file in files if may_select(run, file, job, context)),  # noqa: B023 - asked at once
        )
    return frozenset(found)


def may_select(run: PytestRun, file: str, job: Job, context: Context) -> bool:
    """Return whether *run* selects a test of *file*, or may: marks that cannot be read count for it."""
    expression, alike = expression_of(run), context.alike(file)
    if expression is None or not alike or context.adds_marks(file):
        return True
    return any(
        selects(expression, one, job.platform, context) is not False
        for tests in alike
        for one in tests[0].variants
    )


def selects(
    expression: Expression | None, variant: Variant, platform: str | None, context: Context
) -> bool | None:
    """Return whether *expression* (None: everything) selects *variant*, None where its marks are not all known."""
    if expression is None:
        return True
    if not variant.is_exact:
        return None
    text, vocabulary = expression.text, context.vocabulary
    asked = context.once(
        (asked_platform, text, platform), lambda: asked_platform(expression, platform, context)
    )
    # the tests of a file are mostly alike
    return context.once(
        (selects, text, variant, asked), lambda: expression.matches(variant.marks(asked, vocabulary))
    )


def expression_of(run: PytestRun) -> Expression | None:
    """Return what `-m` says; None for a run without one, or with one that cannot be read."""
    return _parsed(run.marks) if run.marks else None


def asked_platform(expression: Expression, platform: str | None, context: Context) -> str | None:
    """Return the one platform that *expression* asks for, else the machine's."""
    named = [row.name for row in context.vocabulary.platforms if row.name in expression.positive]
    return named[0] if len(named) == 1 else platform


def _placed(
    files: Iterable[str], expression: Expression | None, machine: _Machine, context: Context
) -> Iterator[Placement]:
    """Yield the placements in *files*: skipped where every variant that is selected is."""
    for file in files:
        for tests in context.alike(file):
            first = tests[0]
            chosen = [one for one in first.variants if selects(expression, one, machine.platform, context)]
            if chosen:
                reasons = [_skipped(first, one, machine, context) for one in chosen]
                yield Placement(file, tests, reasons[0] if all(reasons) else None)


def _skipped(test: DeclaredTest, variant: Variant, machine: _Machine, context: Context) -> Skipped | None:
    return context.once(
        (skipped, test.cards, variant, machine),
        lambda: skipped(
            test,
            variant,
            platform=machine.platform,
            sku=machine.sku,
            cards=machine.cards,
            vocabulary=context.vocabulary,
        ),
    )


@cache
def _parsed(text: str) -> Expression | None:
    try:
        return parse(text)
    except ExpressionError:
        return None
