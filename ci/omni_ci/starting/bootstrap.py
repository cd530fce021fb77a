"""A bootstrap file with its conditions: which of its steps are uploaded, when each starts, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omni_ci.selection.gates import judge_gates
from omni_ci.showing.escaping import html_cell
from omni_ci.starting.builds import Situation, Start, is_sweep, start_of
from omni_ci.starting.skipping import Decision, Kind
from omni_ci.yaml.model import Group, Leaf, PipelineFile, PlainStep, Step
from omni_hardware.errors import InputError

# What a step's command passes on to `omni-ci upload`: --e2e in a scheduled sweep, else nothing.
SWEEP_VARIABLE = "OMNI_CI_SWEEP"
# Conditions and reasons are shown whole: cut, a condition would read as another one.
_WHOLE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one step or group; *start* of None: the policy says nothing of its key, so it stays as it is."""

    title: str
    start: Start | None

    def __str__(self) -> str:
        if self.start is None:
            return f"{self.title}: as written"
        if self.start.left_out is not None:
            return f"{self.title}: left out, {self.start.left_out}"
        return f"{self.title}: {'always' if self.start.condition is None else f'if {self.start.condition}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrapped:
    """The file with its conditions, which of its steps are uploaded (by ident), and what became of each."""

    pipeline: PipelineFile
    runs: frozenset[str]
    fates: tuple[Fate, ...]


def bootstrapped(pipeline: PipelineFile, situation: Situation, *, environ: Mapping[str, str]) -> Bootstrapped:
    """Return *pipeline* as it is uploaded in the build that *environ* describes.

    A condition that is written stays beside the policy's: both must hold. Raises InputError for the key of a tier
    that there is not.
    """
    draft = _Draft(situation=situation, environ=environ)
    steps = tuple(draft.part(item) for item in pipeline.steps)
    made = pipeline.model_copy(update={"steps": steps})
    works = draft.kept - {leaf.ident for _, leaf in made.leaves() if leaf.goes_along}
    gates = {ident for ident, (stays, _) in judge_gates(made, works).items() if stays}
    return Bootstrapped(pipeline=made, runs=frozenset(works | (gates & draft.kept)), fates=tuple(draft.fates))


def annotation(made: Bootstrapped, decision: Decision, *, title: str) -> str:
    """Return Markdown for the build's page: the decision and every step. All text in it is escaped."""
    rows = "".join(f"<li>{html_cell(str(fate), _WHOLE)}</li>\n" for fate in made.fates)
    return (
        f"<p><b>{html_cell(title)}</b>: {html_cell(decision.because, _WHOLE)}</p>\n"
        f"<details><summary>Every step, and when it starts</summary>\n<ul>\n{rows}</ul>\n</details>\n"
    )


def document(made: Bootstrapped, situation: Situation) -> dict[str, Any]:
    """Return the decision as the values that are kept beside the pipeline."""
    decision = situation.decision
    return {
        "schema": 1,
        "platform": situation.platform,
        "policy": situation.policy.digest,
        "decision": {
            "kind": str(decision.kind),
            "because": decision.because,
            "run": [list(pair) for pair in sorted(decision.run)],
        },
        "steps": [
            {
                "step": fate.title,
                "uploaded": fate.start is None or fate.start.left_out is None,
                "if": fate.start.condition if fate.start else None,
                "because": fate.start.left_out if fate.start else None,
            }
            for fate in made.fates
        ],
    }


def is_worth_a_note(decision: Decision) -> bool:
    """Return whether the build's page should say what the change left out."""
    return decision.kind is not Kind.NORMAL


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The steps that stay, by ident, and what became of every one, while the file is walked."""

    situation: Situation
    environ: Mapping[str, str]
    kept: set[str] = field(default_factory=set)
    fates: list[Fate] = field(default_factory=list)

    def part(self, item: Group | Leaf) -> Group | Leaf:
        if not isinstance(item, Group):
            return self._leaf(item)
        start = self._fate(item.key, item.group, item)
        if start is not None and start.left_out is not None:
            return item
        steps = tuple(self._leaf(leaf) for leaf in item.steps)
        return item.model_copy(update={"steps": steps, **_condition("if_", item.if_, start)})

    def _leaf(self, leaf: Leaf) -> Leaf:
        start = self._fate(leaf.key, leaf.label or leaf.ident, leaf)
        if start is not None and start.left_out is not None:
            return leaf
        self.kept.add(leaf.ident)
        if start is None:
            return leaf
        if isinstance(leaf, PlainStep):
            if not isinstance(leaf.body, dict):
                return leaf
            body = {**leaf.body, **_condition("if", leaf.body.get("if"), start)}
            return leaf.model_copy(update={"body": body})
        return leaf.model_copy(update={**_condition("if_", leaf.if_, start), **self._sweep(leaf, start)})

    def _fate(self, key: str | None, title: str, part: Group | Leaf) -> Start | None:
        try:
            start = start_of(key, self.situation)
        except InputError as error:
            raise InputError(f"{part.where.file}:{part.where.line}: {error}") from None
        if not part.is_gate or start is not None:
            self.fates.append(Fate(title=key or title, start=start))
        return start

    def _sweep(self, leaf: Step, start: Start) -> dict[str, Any]:
        """Return the variable that says whether the upload is a sweep, for a tier that has one."""
        if start.tier is None or not start.tier.sweep:
            return {}
        main_branch = self.situation.policy.main_branch
        flag = "--e2e" if is_sweep(start.tier, self.environ, main_branch=main_branch) else ""
        return {"env": {**(leaf.env or {}), SWEEP_VARIABLE: flag}}


def _condition(name: str, written: str | None, start: Start | None) -> dict[str, str]:
    """Return the condition to set as *name*, none where there is nothing to add to what is *written*."""
    if start is None or start.condition is None:
        return {}
    return {name: f"{start.condition} && ({written})" if written else start.condition}
