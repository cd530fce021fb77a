"""A selection as Markdown, for a comment or a file: one table a pipeline file, all text escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omni_ci.selection.judging import Selection
from omni_ci.showing.escaping import markdown_cell, without_emoji
from omni_ci.showing.report import WORDS, cost, summary

_HEAD = "| | step | hardware | GPU min | because |\n|---|---|---|---:|---|"


def markdown(selection: Selection, *, notices: Sequence[str] = ()) -> str:
    """Return the plan as Markdown."""
    return "\n".join(_lines(selection, notices)) + "\n"


def _lines(selection: Selection, notices: Sequence[str]) -> Iterator[str]:
    yield "## What runs, and why\n"
    yield "\n\n".join(markdown_cell(line) for line in reversed(summary(selection)))
    for file in dict.fromkeys(verdict.file for verdict in selection.steps):
        yield f"\n### {markdown_cell(file)}\n"
        yield _HEAD
        for one in (verdict for verdict in selection.steps if verdict.file == file):
            label = without_emoji(one.label)
            step = markdown_cell(label if label == one.step else f"{label} ({one.step})")
            word = f"**{WORDS[True]}**" if one.runs else WORDS[False]
            cells = (word, step, *map(markdown_cell, (one.preset or "-", cost(one), one.because)))
            yield f"| {' | '.join(cells)} |"
    if notices:
        yield "\n### Notes\n"
        yield from (f"- {markdown_cell(notice)}" for notice in notices)
