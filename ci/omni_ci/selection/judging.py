"""Which steps run for this change, and why: a union of reasons, each step with the first that holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from omni_ci.configuration import ConfigKind
from omni_ci.policy import Policy
from omni_ci.rendering.jobs import job_count
from omni_ci.repository.changes import ChangeSet
from omni_ci.repository.imports import ImportGraph
from omni_ci.repository.watching import NO_LINKS, Links
from omni_ci.selection.facts import Case, Decision, DefinitionChange, Facts, Reason, Rule
from omni_ci.selection.gates import judge_gates
from omni_ci.selection.reasons import RULES
from omni_ci.yaml.model import Leaf, PipelineFile, PlainStep, Step, step_id
from omni_ci.yaml.registry import NO_REGISTRY, Registry, check_keys

__all__ = [
    "DefinitionChange",
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
    changes: ChangeSet,
    *,
    policy: Policy,
    registry: Registry = NO_REGISTRY,
    tree: frozenset[str] | None = None,
    definitions: Mapping[str, DefinitionChange] | None = None,
    configs: Mapping[str, ConfigKind] | None = None,
    labels: Iterable[str] = (),
    links: Links = NO_LINKS,
    mode: Mode = Mode.DIFF,
    only: Iterable[str] = (),
    decided: Mapping[str, Decision] | None = None,
    imports: ImportGraph | None = None,
    config_from: str = "head",
) -> Selection:
    """Return a verdict on every step, in file order. Pure.

    *tree* holds the paths at the head (None: not known, so that vanished paths cannot be told). *definitions*
    maps `file#ident` to steps whose rendered form differs from the base's. *configs* maps the presets,
    template, registry and policy files in use to what they are: listed by hand, they select what they render.
    *links* says which paths of the tree have further names. *decided* holds, by `file#ident`, what was settled
    already: by name, by an earlier selection, by hardware that is not there; *only* are the names asked for. *imports* is asked for what
    tests import, where policy or the step counts that.
    Raises LoadError naming every unknown registry key.
    """
    facts = Facts(
        changes=changes,
        policy=policy,
        registry=registry,
        tree=tree,
        definitions=definitions or {},
        configs=configs or {},
        labels=tuple(dict.fromkeys(labels)),
        links=links,
        decided=decided or {},
        imports=imports,
    )
    check_keys(tuple(pipelines), registry, facts.is_path)
    verdicts = [verdict for pipeline in pipelines for verdict in _judge_file(pipeline, facts, mode)]
    return Selection(
        changes=changes,
        policy=policy.digest,
        config_from=config_from,
        mode=mode,
        labels=facts.labels,
        only=tuple(only),
        verdicts=tuple(verdicts),
        notices=(*changes.notices, *registry.notices, *facts.notices),
    )


def _judge_file(pipeline: PipelineFile, facts: Facts, mode: Mode) -> Iterator[Verdict]:
    """Yield the verdicts in file order; a gate goes along with the steps around it."""
    cases = [Case(pipeline.name, group, leaf) for group, leaf in pipeline.leaves()]
    judged = {case.leaf.ident: _judge_step(case, facts, mode) for case in cases if not _goes_along(case.leaf)}
    running = frozenset(ident for ident, (runs, _) in judged.items() if runs)
    for ident, (stays, because) in judge_gates(pipeline, running, _goes_along).items():
        judged[ident] = (stays, Reason(Rule.DEFAULT, because))
    for case in cases:
        runs, reason = judged[case.leaf.ident]
        if running and not runs and isinstance(case.leaf, PlainStep) and _goes_along(case.leaf):
            facts.notices.append(f"{case.place} ({case.leaf.kind}) is left out: {reason.because}")
        yield _verdict(case, reason, runs=runs)


def _judge_step(case: Case, facts: Facts, mode: Mode) -> Decision:
    if (settled := facts.decided.get(case.id)) is not None:
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


def _goes_along(leaf: Leaf) -> bool:
    return leaf.is_gate and leaf.source_file_dependencies is None


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
        depends_on=_depends_on(case),
        is_gate=_goes_along(leaf),
    )


def _depends_on(case: Case) -> tuple[str, ...]:
    """Return the keys a step waits for, its group's first."""
    names: list[str] = []
    for value in (case.group.depends_on if case.group else None, case.leaf.depends_on):
        for item in value if isinstance(value, list) else [value]:
            name = item.get("step") if isinstance(item, dict) else item
            names += [name] if isinstance(name, str) else []
    return tuple(dict.fromkeys(names))


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
