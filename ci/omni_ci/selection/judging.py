"""Which steps run for this change, and why: a union of reasons, each step with the first that holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from omni_ci.rendering.jobs import job_count
from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.facts import Case, Decision, DefinitionChange, Evidence, Facts, Reason, Rule
from omni_ci.selection.gates import judge_gates
from omni_ci.selection.reasons import RULES
from omni_ci.yaml.model import PipelineFile, PlainStep, Step, step_id
from omni_ci.yaml.registry import check_keys
from omni_ci.yaml.waits import keys_of

__all__ = [
    "DefinitionChange",
    "Evidence",
    "Mode",
    "Rule",
    "Selection",
    "Verdict",
    "judge",
]


MinutesFrom = Literal["durations", "timeout"]


class Mode(StrEnum):
    """What was asked for: the steps a change concerns, all of them, the end-to-end groups, or steps by name."""

    DIFF = "diff"
    ALL = "all"
    E2E = "e2e"
    ONLY = "only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a step runs, and why; it cannot exist without a reason.

    *minutes* are those of one of its *jobs*, each of which holds *cards*; where they come from, *minutes_from* says.
    """

    file: str
    step: str
    label: str
    group: str | None
    runs: bool
    because: str
    rule: Rule
    preset: str | None = None
    cards: int | None = None
    jobs: int = 1
    minutes: float | None = None
    minutes_from: MinutesFrom | None = None
    depends_on: tuple[str, ...] = ()
    is_gate: bool = False

    def __post_init__(self) -> None:
        if not self.because.strip():
            raise ValueError(f"a verdict on {self.step!r} needs a reason")

    @property
    def id(self) -> str:
        """The step's name across files."""
        return step_id(self.file, self.step)

    @property
    def gpu_minutes(self) -> float | None:
        """What it costs: cards × minutes × jobs; None where cards or minutes are not known."""
        if self.cards is None or self.minutes is None:
            return None
        return self.cards * self.minutes * self.jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Every step of every pipeline, judged; waits and other gates included (`is_gate`)."""

    changes: ChangeSet
    policy: str
    config_from: str
    mode: Mode
    labels: tuple[str, ...]
    only: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...]
    notices: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[Verdict, ...]:
        """The verdicts on steps that do something: those that reports list and count."""
        return tuple(verdict for verdict in self.verdicts if not verdict.is_gate)

    def running(self, file: str) -> frozenset[str]:
        """Return the idents of the steps of *file* that run."""
        return frozenset(verdict.step for verdict in self.verdicts if verdict.file == file and verdict.runs)

    def document(self) -> dict[str, Any]:
        """Return the selection as the values of selection.json."""
        diff = self.changes
        return {
            "schema": 1,
            "diff": {
                "known": diff.known,
                "base": diff.base,
                "head": diff.head,
                "reason": diff.reason,
                "files": list(diff.files),
            },
            "config": {"policy": self.policy, "from": self.config_from},
            "mode": str(self.mode),
            "labels": list(self.labels),
            "only": list(self.only),
            "steps": [_as_values(verdict) for verdict in self.steps],
        }

    def to_json(self) -> str:
        """Return the text of selection.json."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n"


def judge(
    pipelines: Sequence[PipelineFile],
    evidence: Evidence,
    *,
    mode: Mode = Mode.DIFF,
    only: Iterable[str] = (),
    config_from: str = "head",
) -> Selection:
    """Return a verdict on every step, in file order. Pure, but for the files that *evidence* reads when asked.

    *only* are the names asked for, *config_from* the side that the configuration is of. Raises LoadError naming
    every unknown registry key.
    """
    facts = Facts(evidence=evidence)
    check_keys(tuple(pipelines), evidence.registry, facts.is_path)
    verdicts = [verdict for pipeline in pipelines for verdict in _judge_file(pipeline, facts, mode)]
    return Selection(
        changes=evidence.changes,
        policy=evidence.policy.digest,
        config_from=config_from,
        mode=mode,
        labels=evidence.labels,
        only=tuple(only),
        verdicts=tuple(verdicts),
        notices=(*evidence.changes.notices, *evidence.registry.notices, *facts.notices),
    )


def _judge_file(pipeline: PipelineFile, facts: Facts, mode: Mode) -> Iterator[Verdict]:
    """Yield the verdicts in file order; a gate goes along with the steps around it."""
    cases = [Case(pipeline.name, group, leaf) for group, leaf in pipeline.leaves()]
    judged = {case.leaf.ident: _judge_step(case, facts, mode) for case in cases if not case.leaf.goes_along}
    running = frozenset(ident for ident, (runs, _) in judged.items() if runs)
    for ident, (stays, because) in judge_gates(pipeline, running).items():
        judged[ident] = (stays, Reason(Rule.DEFAULT, because))
    for case in cases:
        runs, reason = judged[case.leaf.ident]
        if running and not runs and isinstance(case.leaf, PlainStep) and case.leaf.goes_along:
            facts.notices.append(f"{case.place} ({case.leaf.kind}) is left out: {reason.because}")
        yield _verdict(case, reason, runs=runs)


def _judge_step(case: Case, facts: Facts, mode: Mode) -> Decision:
    if (settled := facts.evidence.decided.get(case.id)) is not None:
        return settled
    if mode is Mode.ALL:
        return True, Reason(Rule.DEFAULT, "everything was asked for")
    if mode is Mode.E2E:
        wanted = facts.policy.e2e_group
        is_e2e = case.group is not None and wanted in case.group.group
        return is_e2e, Reason(Rule.DEFAULT, f"{'in' if is_e2e else 'not in'} a group named {wanted!r}")
    for rule in RULES:
        if reason := rule(case, facts):
            return True, reason
    return False, facts.why_not(case)


def _verdict(case: Case, reason: Reason, *, runs: bool) -> Verdict:
    leaf = case.leaf
    timeout = leaf.timeout_in_minutes if isinstance(leaf, Step) else None
    return Verdict(
        file=case.file,
        step=leaf.ident,
        label=leaf.label or leaf.ident,
        group=case.group.group if case.group else None,
        runs=runs,
        because=reason.because,
        rule=reason.rule,
        preset=leaf.mirror_hardwares if isinstance(leaf, Step) else None,
        jobs=job_count(leaf.parallelism, leaf.matrix) if isinstance(leaf, Step) else 1,
        minutes=timeout,
        minutes_from="timeout" if timeout is not None else None,
        depends_on=keys_of(case.group.depends_on if case.group else None, leaf.depends_on),
        is_gate=leaf.goes_along,
    )


def _as_values(verdict: Verdict) -> dict[str, Any]:
    return {
        "file": verdict.file,
        "key": verdict.step,
        "label": verdict.label,
        "group": verdict.group,
        "runs": verdict.runs,
        "because": verdict.because,
        "rule": str(verdict.rule),
        "preset": verdict.preset,
        "cards": verdict.cards,
        "jobs": verdict.jobs,
        "minutes": verdict.minutes,
        "minutes_from": verdict.minutes_from,
        "depends_on": list(verdict.depends_on),
    }
