"""The annotation on a build's page: what runs, what does not, and why, short enough for Buildkite to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omni_ci.selection.costs import priced
from omni_ci.selection.judging import Selection, Verdict
from omni_ci.showing.escaping import html_cell
from omni_ci.showing.report import cost, counted

# Buildkite cuts an annotation off at 1 MiB, in the middle of a tag if need be.
BYTES = 1024 * 1024
_FOR_ROWS = BYTES - 64 * 1024
_NOTICES = 20
_LABELS = 40
_HEAD = "<tr><th>step</th><th>hardware</th><th>GPU min</th><th>because</th></tr>\n"


def annotation(selection: Selection, *, title: str, notices: Sequence[str] = ()) -> str:
    """Return Markdown (HTML tables) for a build's page, at most 1 MiB of it; all text in it is escaped."""
    runs = [verdict for verdict in selection.steps if verdict.runs]
    skips = [verdict for verdict in selection.steps if not verdict.runs]
    room = _Room(_FOR_ROWS)
    price = priced(selection)
    nothing = "" if runs else "nothing selected, so nothing is uploaded: "
    parts = [
        f"<p><b>{html_cell(title)}</b>: {nothing}{html_cell(counted(selection))}</p>\n",
        f"<p>{html_cell(price)}</p>\n" if price else "",
        _notes(notices),
        _table("Run", len(runs), _HEAD, _running(runs), room, is_open=True),
        _table("Skip", len(skips), "", _skipped(skips), room, is_open=not runs),
    ]
    return "".join(parts)


class _Room:
    """The bytes that are left for rows."""

    def __init__(self, size: int) -> None:
        self._left = size

    def takes(self, text: str) -> bool:
        size = len(text.encode())
        if size > self._left:
            return False
        self._left -= size
        return True


# A row and how many steps it tells of; none for a heading.
_Row = tuple[str, int]


def _table(title: str, count: int, head: str, rows: Iterable[_Row], room: _Room, *, is_open: bool) -> str:
    if not count:
        return ""
    shown: list[str] = []
    told = 0
    for text, steps in rows:
        if not room.takes(text):
            break
        shown.append(text)
        told += steps
    rest = f"<p>… and {count - told} more in selection.json</p>\n" if told < count else ""
    return (
        f"<details{' open' if is_open else ''}><summary>{title} {count}</summary>\n"
        f"<table>{head}{''.join(shown)}</table>\n{rest}</details>\n"
    )


def _running(verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    """Yield a row a step, under the title of its group."""
    for group in dict.fromkeys(verdict.group for verdict in verdicts):
        if group is not None:
            yield f'<tr><th colspan="4">{html_cell(group)}</th></tr>\n', 0
        for one in (verdict for verdict in verdicts if verdict.group == group):
            cells = (one.label, one.preset or "", cost(one), one.because)
            yield f"<tr>{''.join(f'<td>{html_cell(cell)}</td>' for cell in cells)}</tr>\n", 1


def _skipped(verdicts: Sequence[Verdict]) -> Iterator[_Row]:
    """Yield a row a reason, with the steps that have it: a hundred steps often share one."""
    by_reason: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_reason.setdefault(verdict.because, []).append(verdict)
    for because, steps in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        labels = ", ".join(html_cell(step.label) for step in steps[:_LABELS])
        more = f" and {len(steps) - _LABELS} more" if len(steps) > _LABELS else ""
        yield (
            f"<tr><td>{len(steps)}</td><td>{html_cell(because)}</td><td>{labels}{more}</td></tr>\n",
            len(steps),
        )


def _notes(notices: Sequence[str]) -> str:
    if not notices:
        return ""
    items = "".join(f"<li>{html_cell(notice)}</li>\n" for notice in notices[:_NOTICES])
    more = (
        f"<li>… and {len(notices) - _NOTICES} more in the job's log</li>\n" if len(notices) > _NOTICES else ""
    )
    return f"<details><summary>Notes {len(notices)}</summary>\n<ul>\n{items}{more}</ul>\n</details>\n"
