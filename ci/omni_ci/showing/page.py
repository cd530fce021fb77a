"""A selection as one HTML page: no network, no font, sorted and filtered in the browser, everything escaped."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from omni_ci.selection.costs import Tally, priced, shown, tally
from omni_ci.selection.judging import Selection, Verdict
from omni_ci.showing.escaping import cut, one_line, without_emoji
from omni_ci.showing.report import WORDS, cost, counted

_FILES = 2000


def page(selection: Selection, *, notices: Sequence[str] = ()) -> str:
    """Return the plan as a page that needs nothing beside it; its own script is the only one that may run."""
    data = files("omni_ci").joinpath("data/page")
    script = data.joinpath("plan.js").read_text(encoding="utf-8")
    jinja = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = jinja.from_string(data.joinpath("plan.html.j2").read_text(encoding="utf-8"))
    count = tally(selection)
    text = template.render(
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=data.joinpath("plan.css").read_text(encoding="utf-8"),
        counted=one_line(counted(selection)),
        priced=priced(selection),
        tiles=_tiles(count),
        rows=[_row(verdict) for verdict in selection.steps],
        rules=sorted(Counter(str(verdict.rule) for verdict in selection.steps).items()),
        notices=[cut(notice, 2000) for notice in notices],
        files=[cut(path, 2000) for path in selection.changes.files[:_FILES]],
        more_files=max(0, len(selection.changes.files) - _FILES),
        selection=selection,
    )
    return text.encode("utf-8", "backslashreplace").decode()


def _tiles(count: Tally) -> list[tuple[str, str, str]]:
    """Return (kind, number, words) for the numbers on top."""
    total = count.run.gpu_minutes + count.skip.gpu_minutes
    saved = f"{count.skip.gpu_minutes / total:.0%} of {shown(total)}" if total else "no step has cards"
    return [
        ("run", f"{count.run.steps:,}", f"of {count.steps:,} steps run"),
        ("skip", f"{count.skip.steps:,}", "skip"),
        ("cost", shown(count.run.gpu_minutes), "GPU minutes run"),
        ("saved", shown(count.skip.gpu_minutes), f"GPU minutes skip ({saved})"),
    ]


def _row(verdict: Verdict) -> dict[str, Any]:
    return {
        "state": WORDS[verdict.runs],
        "label": cut(without_emoji(verdict.label)),
        "id": cut(verdict.id),
        "group": cut(without_emoji(verdict.group or "")),
        "preset": cut(verdict.preset or ""),
        "cost": cost(verdict),
        "sort": -1 if verdict.gpu_minutes is None else verdict.gpu_minutes,
        "rule": str(verdict.rule),
        "because": cut(verdict.because, 2000),
    }
