"""The table of statuses that closes a run, and the heading before each item."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from omni_ci.runner.outcome import NO_TESTS, SIGNALLED, TIMED_OUT, ItemResult, Outcome
from omni_hardware.errors import strip_controls
from omni_hardware.redaction import redact

_SHOWN = 100
# What shells mean by a status; a signal's is worked out.
MEANINGS = {0: "passed", 1: "failed", TIMED_OUT: "timed out", 126: "cannot be executed", 127: "not found"}
PYTEST_MEANINGS = {
    2: "collection error, or interrupted",
    3: "internal error",
    4: "wrong option, or no such path",
    NO_TESTS: "no tests ran",
}


def title(number: int, count: int, command: str) -> str:
    """Return the line before an item, which Buildkite folds the item's output under."""
    return f"--- [{number}/{count}] {shown(command)}"


def shown(command: str) -> str:
    r"""Return a command as one line without its secrets.

    >>> shown("export HF_TOKEN=hf_abcdefgh\npytest")
    'export HF_TOKEN=[redacted] …'
    """
    whole = strip_controls(redact(command)).strip()
    first = whole.split("\n", 1)[0].rstrip(" \\")
    cut = first if len(first) <= _SHOWN else first[:_SHOWN]
    return cut if cut == whole else f"{cut} …"


def meaning(item: ItemResult) -> str:
    """Return an item's status in words: "passed", "SIGKILL", "no tests ran", "not run"."""
    status = item.status
    if status is None:
        return "not run"
    if status > SIGNALLED:
        try:
            return signal.Signals(status - SIGNALLED).name
        except ValueError:
            return "failed"
    of_pytest = PYTEST_MEANINGS.get(status) if "pytest" in item.command or status == NO_TESTS else None
    return of_pytest or MEANINGS.get(status, "failed")


def lines(outcome: Outcome) -> Iterator[str]:
    """Yield the table, what was left behind, and the exit code with its reason."""
    yield "+++ items" if outcome.status else "--- items"
    rows = [("status", "seconds", "", "command"), *map(_row, outcome.items)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join((*cells, row[3])).rstrip()
    for number, item in enumerate(outcome.items, 1):
        if item.note:
            yield f"item {number}: {strip_controls(redact(item.note))}"
    yield from (f"note: {note}" for note in outcome.notes)
    if outcome.leaked:
        yield "processes left behind, and ended now:"
        yield from (f"  {line}" for line in outcome.leaked.splitlines())
    yield because(outcome)


def because(outcome: Outcome) -> str:
    """Return the sentence with the exit code, and which item it is that of."""
    if missing := len(outcome.not_run):
        tail = f"; {missing} item{'s were' if missing > 1 else ' was'} not run"
    else:
        tail = ""
    for number, item in enumerate(outcome.items, 1):
        if outcome.status and item.status == outcome.status:
            return f"exit {outcome.status}: item {number}, {meaning(item)}{tail}"
    if outcome.status == 0 and outcome.without_tests:
        allowed = ", ".join(
            str(number) for number, item in enumerate(outcome.items, 1) if item.status == NO_TESTS
        )
        return f"exit 0: no tests in item {allowed}, which VLLM_CI_ALLOW_NO_TESTS=1 allows{tail}"
    return f"exit {outcome.status}{tail}"


def _row(item: ItemResult) -> tuple[str, str, str, str]:
    status = "-" if item.status is None else str(item.status)
    seconds = "-" if item.status is None else f"{item.seconds:.1f}"
    return status, seconds, meaning(item), shown(item.command)
