"""``pytest --omni-doctor``: one screen of what the plugin sees here and what stands in its way; no test runs.

Exit 0, or 3 when something was found. The last lines are the inventory, ready to be a file for --omni-inventory.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import pytest

from omni_hardware.errors import CheckError, OmniError, strip_controls

if TYPE_CHECKING:
    from pytest_omni.diagnosis import doctor_checks

_TOPIC_WIDTH = 12
_WIDEST = 110


class State(StrEnum):
    """How a finding is to be taken; the value is its sign on the screen."""

    FINE = "✓"
    NOTE = "·"
    PROBLEM = "✗"


_PLAIN = str.maketrans({"✓": "+", "·": "-", "✗": "x", "→": ">", "×": "x", "…": "...", "≥": ">="})
_COLORS = {State.FINE: "32", State.NOTE: "2", State.PROBLEM: "1;31"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the screen. remedy: what to do about a problem."""

    topic: str
    text: str
    state: State = State.FINE
    remedy: str = ""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Examine instead of running, before pytest's own configuration can refuse what is to be examined."""
    from pytest_omni.options import settings_of

    return examine(config) if settings_of(config).doctor else None


def examine(config: pytest.Config) -> int:
    """Print the screen and return the exit code."""
    from pytest_omni.diagnosis import doctor_checks

    found = list(findings(config, doctor_checks.CHECKS))
    asked = getattr(config.option, "color", "no")  # -p no:terminal takes the option along
    color = asked == "yes" or (asked == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    width = min(shutil.get_terminal_size().columns, _WIDEST)
    for line in (*screen(found, width=width, color=color), *doctor_checks.inventory_lines(config)):
        print(printable(line, sys.stdout.encoding or "ascii"))
    return CheckError.exit_code if any(row.state is State.PROBLEM for row in found) else 0


def printable(line: str, encoding: str) -> str:
    """Return *line* with nothing that *encoding* lacks: with LANG=C the screen must not end in a traceback."""
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        return line.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return line


def findings(config: pytest.Config, checks: Iterable[doctor_checks.Check]) -> Iterator[Finding]:
    """Yield what each check finds; one that cannot be made is a problem of its own."""
    for check in checks:
        try:
            yield from check.make(config)
        except (OmniError, pytest.UsageError) as error:
            yield Finding(check.topic, strip_controls(str(error)), State.PROBLEM)


def screen(found: Iterable[Finding], *, width: int, color: bool) -> Iterator[str]:
    """Yield the lines for people: a headline, then one paragraph a finding, its topic named once."""
    rows = list(found)
    bad = sum(row.state is State.PROBLEM for row in rows)
    verdict = f"{bad} problem{'s' if bad > 1 else ''}" if bad else "nothing stands in the way"
    yield _painted(f"pytest-omni doctor: {verdict}", State.PROBLEM if bad else State.FINE, color)
    yield ""
    topic = ""
    for row in rows:
        head = row.topic if row.topic != topic else ""
        topic = row.topic
        yield from _paragraph(head, row, width=width, color=color)
    yield ""


def _paragraph(head: str, row: Finding, *, width: int, color: bool) -> Iterator[str]:
    indent = " " * (_TOPIC_WIDTH + 2)
    room = max(20, width - len(indent))
    said = [row.text, f"→ {row.remedy}"] if row.remedy else [row.text]
    parts = [part for text in said for part in text.split("\n")]
    lines = [
        line
        for part in parts
        for line in textwrap.wrap(part, room, break_on_hyphens=False, break_long_words=False)
    ]
    for number, line in enumerate(lines):
        if number == 0:
            yield f"{head:<{_TOPIC_WIDTH}}{_painted(row.state.value, row.state, color)} {line}"
        else:
            yield f"{indent}{line}"


def _painted(text: str, state: State, color: bool) -> str:
    return f"\x1b[{_COLORS[state]}m{text}\x1b[0m" if color else text
