"""A selection for people: every step, run or skip, and why; and one line that counts."""

from __future__ import annotations

import html
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from omni_ci.selection import Selection, Verdict
from omni_hardware.errors import strip_controls

_WORDS = {True: "run", False: "skip"}
_ANNOTATED_AT_MOST = 200


def print_table(selection: Selection, out: TextIO) -> None:
    """Write every step with its reason: a table on a terminal, a line a step in a pipe, and a line that counts."""
    shown = [verdict for verdict in selection.verdicts if not verdict.is_gate]
    if out.isatty():
        _rich_table(shown, out)
    else:
        out.writelines(f"{line}\n" for line in plain_lines(shown))
    print(counted(selection), file=out)


def plain_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one line a step, in columns that do not cut anything off."""
    return _columns([(_WORDS[one.runs], one.id, one.preset or "-", one.because) for one in verdicts])


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], out: TextIO) -> None:
    """Write *rows* under *titles*, in columns that do not cut anything off."""
    out.writelines(f"{line}\n" for line in _columns([titles, *rows]))


def counted(selection: Selection) -> str:
    """Return the sentence that says how many steps run, what of, and of which change."""
    verdicts = [verdict for verdict in selection.verdicts if not verdict.is_gate]
    count = Counter(verdict.runs for verdict in verdicts)
    steps = f"{len(verdicts)} step{'' if len(verdicts) == 1 else 's'}"
    what = f"{count[True]} of {steps} run, {count[False]} skip"
    return _one_line(f"{what}; {_change(selection)}")


def nothing_selected(selection: Selection) -> str:
    """Return the sentence for a pipeline of which nothing runs."""
    return f"nothing selected, so there is nothing to upload: {counted(selection)}"


def annotation(selection: Selection, *, title: str) -> str:
    """Return Markdown for a build's page: the count, and a table of every step. All text in it is escaped."""
    verdicts = [verdict for verdict in selection.verdicts if not verdict.is_gate]
    # What runs comes first: Buildkite cuts annotations off at 1 MiB.
    ordered = sorted(verdicts, key=lambda verdict: not verdict.runs)[:_ANNOTATED_AT_MOST]
    rows = "".join(
        f"<tr><td>{_WORDS[one.runs]}</td><td>{_cell(one.label)}</td><td>{_cell(one.preset or '')}</td>"
        f"<td>{_cell(one.because)}</td></tr>\n"
        for one in ordered
    )
    more = len(verdicts) - len(ordered)
    rest = f"<p>… and {more} more in selection.json</p>\n" if more else ""
    return (
        f"<p><b>{_cell(title)}</b>: {_cell(counted(selection))}</p>\n"
        "<details><summary>Every step, and why</summary>\n"
        f"<table><tr><th></th><th>step</th><th>hardware</th><th>because</th></tr>\n{rows}</table>\n{rest}</details>\n"
    )


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
        print(strip_controls(message), file=sys.stderr)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [
        _one_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        for row in rows
    ]


def _change(selection: Selection) -> str:
    diff = selection.changes
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
    for title, style in (("", None), ("step", "bold"), ("hardware", "cyan"), ("because", None)):
        table.add_column(title, style=style, overflow="fold")
    for file in dict.fromkeys(verdict.file for verdict in verdicts):
        table.add_row("", Text(_one_line(file), style="dim"), "", "")
        for one in (verdict for verdict in verdicts if verdict.file == file):
            word = Text(_WORDS[one.runs], style="green" if one.runs else "dim")
            cells = (one.step, one.preset or "-", one.because)
            table.add_row(word, *(Text(_one_line(cell)) for cell in cells))
    Console(file=out).print(table)


def _one_line(text: str) -> str:
    return " ".join(strip_controls(text).split("\n")).rstrip()


def _cell(text: str) -> str:
    """Escape for HTML, and for the Markdown around it, in which a blank line would end the table."""
    return html.escape(_one_line(text)).replace("|", "&#124;").replace("`", "&#96;")
