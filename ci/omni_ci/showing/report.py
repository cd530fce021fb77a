"""A selection for people: every step, run or skip, and why; and one line that counts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from omni_ci.selection.costs import priced, shown
from omni_ci.selection.judging import Selection, Verdict
from omni_ci.showing.escaping import one_line
from omni_hardware.errors import strip_controls

WORDS = {True: "run", False: "skip"}


def print_table(selection: Selection, out: TextIO) -> None:
    """Write every step with its reason: a table on a terminal, a line a step in a pipe; then its count and price."""
    if out.isatty():
        _rich_table(selection.steps, out)
    else:
        out.writelines(f"{line}\n" for line in plain_lines(selection.steps))
    for line in summary(selection):
        print(line, file=out)


def plain_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one line a step, in columns that do not cut anything off."""
    rows = [(WORDS[one.runs], one.id, one.preset or "-", cost(one), one.because) for one in verdicts]
    return _columns([(*row, _with_unit(minutes), because) for *row, minutes, because in rows])


def cost(verdict: Verdict) -> str:
    """Return the GPU minutes of a step; those of a timeout are what it costs at most."""
    if verdict.gpu_minutes is None:
        return "-"
    return f"{'≤' if verdict.minutes_from == 'timeout' else ''}{shown(verdict.gpu_minutes)}"


def summary(selection: Selection) -> list[str]:
    """Return the sentences that price and count a selection."""
    return [line for line in (priced(selection), counted(selection)) if line]


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
    """Write *rows* under *titles*, in columns that do not cut anything off."""
    out.writelines(f"{line}\n" for line in _columns([titles, *rows]))


def counted(selection: Selection) -> str:
    """Return the sentence that says how many steps run, what of, and of which change."""
    verdicts = selection.steps
    count = Counter(verdict.runs for verdict in verdicts)
    steps = f"{len(verdicts)} step{'' if len(verdicts) == 1 else 's'}"
    what = f"{count[True]} of {steps} run, {count[False]} skip"
    return one_line(f"{what}; {_change(selection)}")


def nothing_selected(selection: Selection) -> str:
    """Return the sentence for a pipeline of which nothing runs."""
    return f"nothing selected, so there is nothing to upload: {counted(selection)}"


def write_document(text: str) -> None:
    """Write a document for a program to standard output: UTF-8 whatever the locale, no byte lost.

    What is no text (a path's odd bytes) is written as an escape.
    """
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def say(message: str) -> None:
    """Write a line for people to standard error."""
    if sys.stderr is not None:  # closed: print would take standard output instead
        # what is no text is an escape, as standard error itself has it unless somebody put a stricter stream there
        shown = strip_controls(message).encode("utf-8", "backslashreplace").decode()
        print(shown, file=sys.stderr)


def _with_unit(minutes: str) -> str:
    return minutes if minutes == "-" else f"{minutes} GPU min"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [
        one_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        for row in rows
    ]


def _change(selection: Selection) -> str:
    diff = selection.changes
    if selection.mode == "only":
        return f"asked for by name: {', '.join(selection.only)}"
    if selection.mode == "all":
        return "everything was asked for"
    if selection.mode == "e2e":
        return "the end-to-end groups were asked for"
    if not diff.known:
        return f"the changes are unknown ({diff.reason}), so everything runs"
    files = f"{len(diff.files)} changed file{'' if len(diff.files) == 1 else 's'}"
    if diff.is_listed:
        return f"{files}, {diff.basis}"
    return f"{files} from {(diff.base or '')[:12]} to {(diff.head or '')[:12]}, {diff.basis}"


def _rich_table(verdicts: Sequence[Verdict], out: TextIO) -> None:
    # 40 ms, and only for a person at a terminal
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = (("", None), ("step", "bold"), ("hardware", "cyan"), ("GPU min", None), ("because", None))
    for title, style in titles:
        table.add_column(
            title, style=style, overflow="fold", justify="right" if title == "GPU min" else "left"
        )
    for file in dict.fromkeys(verdict.file for verdict in verdicts):
        table.add_row("", Text(one_line(file), style="dim"), "", "", "")
        for one in (verdict for verdict in verdicts if verdict.file == file):
            word = Text(WORDS[one.runs], style="green" if one.runs else "dim")
            cells = (one.step, one.preset or "-", cost(one), one.because)
            table.add_row(word, *(Text(one_line(cell)) for cell in cells))
    Console(file=out).print(table)
