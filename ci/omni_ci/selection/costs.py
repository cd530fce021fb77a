"""What the steps of a selection cost: cards × minutes × jobs, and where the minutes come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omni_ci.selection.judging import Selection, Verdict
from omni_hardware.errors import InputError, did_you_mean

DEFAULT = ".buildkite/durations.json"
_KEYS = ("schema", "tests", "fixtures", "steps")
_PREFIX = ".buildkite/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Measured minutes by step, as durations.json has them: `cuda/test-merge.yml#bagel`."""

    file: str
    minutes: Mapping[str, float] = field(default_factory=dict)

    def of(self, verdict: Verdict) -> float | None:
        """Return the measured minutes of a step, None where nothing was measured."""
        for name in (verdict.id, verdict.id.removeprefix(_PREFIX)):
            if name in self.minutes:
                return self.minutes[name]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The steps that run, or those that do not: how many, their GPU minutes, and how many have none that are known."""

    steps: int = 0
    gpu_minutes: float = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A selection counted; *measured* and *limits* say of how many steps the minutes are which."""

    run: Side
    skip: Side
    measured: int
    limits: int

    @property
    def steps(self) -> int:
        return self.run.steps + self.skip.steps


def load_durations(text: str, *, name: str) -> Durations:
    """Return the steps' minutes in a durations.json. Raises InputError naming the wrong key or value."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f'{name}: must be a mapping with "schema" and "steps"')
    if unknown := next((key for key in document if key not in _KEYS), None):
        raise InputError(f"{name}: unknown key {unknown!r}{did_you_mean(unknown, _KEYS)}")
    if document.get("schema") != 1:
        raise InputError(f'{name}: "schema" is {document.get("schema")!r}; this version reads 1')
    steps = document.get("steps", {})
    if not isinstance(steps, dict):
        raise InputError(f'{name}: "steps" must map a step to {{"minutes": …}}')
    return Durations(file=name, minutes={step: _minutes(entry, step, name) for step, entry in steps.items()})


def costed(
    verdicts: Iterable[Verdict], *, durations: Durations | None, cards: Callable[[Verdict], int | None]
) -> tuple[Verdict, ...]:
    """Return *verdicts* with the cards of their presets, and measured minutes in place of their timeouts."""
    return tuple(_costed(verdict, durations, cards(verdict)) for verdict in verdicts)


def tally(selection: Selection) -> Tally:
    """Return the count of *selection*, gates left out."""
    steps = selection.steps
    priced = [one for one in steps if one.cards]
    return Tally(
        run=_side(one for one in steps if one.runs),
        skip=_side(one for one in steps if not one.runs),
        measured=sum(one.minutes_from == "durations" for one in priced),
        limits=sum(one.minutes_from == "timeout" for one in priced),
    )


def priced(selection: Selection) -> str | None:
    """Return the sentence that prices *selection*; None where no step has cards."""
    count = tally(selection)
    sources = [
        f"measured for {_steps(count.measured)}" if count.measured else "",
        f"timeouts for {_steps(count.limits)}, so at most" if count.limits else "",
    ]
    missing = count.run.unknown + count.skip.unknown
    if not any(sources):
        what = f"GPU minutes: not known; {_steps(missing)} without cards or minutes to count"
        return what if missing else None
    sums = f"{shown(count.run.gpu_minutes)} run, {shown(count.skip.gpu_minutes)} skip"
    rest = f"; {_steps(missing)} without cards or minutes to count" if missing else ""
    return f"GPU minutes: {sums} ({'; '.join(filter(None, sources))}){rest}"


def shown(minutes: float) -> str:
    """Return minutes for people: without a fraction of zero."""
    return f"{minutes:,.1f}".removesuffix(".0")


def _costed(verdict: Verdict, durations: Durations | None, cards: int | None) -> Verdict:
    measured = durations.of(verdict) if durations is not None and not verdict.is_gate else None
    if measured is None:
        return verdict if cards is None else replace(verdict, cards=cards)
    return replace(verdict, cards=cards, minutes=measured, minutes_from="durations")


def _side(verdicts: Iterable[Verdict]) -> Side:
    listed = list(verdicts)
    costs = [one.gpu_minutes for one in listed if one.preset is not None]
    known = [cost for cost in costs if cost is not None]
    return Side(steps=len(listed), gpu_minutes=sum(known), unknown=len(costs) - len(known))


def _minutes(entry: Any, step: str, name: str) -> float:
    minutes = entry.get("minutes") if isinstance(entry, dict) else None
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 <= minutes < float("inf"):
        raise InputError(f'{name}: "steps" → {step!r} needs {{"minutes": a number}}, not {json.dumps(entry)}')
    return minutes


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"
