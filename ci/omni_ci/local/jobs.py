"""The selected steps as jobs of this machine: their commands as a job would see them, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omni_ci.configuration import Configuration
from omni_ci.hardware.equipping import place
from omni_ci.hardware.presets import Preset, SkuPreset
from omni_ci.interpolation import InterpolationError, interpolate
from omni_ci.local.order import waits_of
from omni_ci.planning import Plan
from omni_ci.yaml.model import Group, Leaf, PipelineFile, PlainStep, Step, slug, step_id
from omni_hardware.errors import InputError
from omni_hardware.requirements import Need

_MINUTE_S = 60.0
# Parts of a step that only Buildkite can act on, and what that means here.
_NOT_ASKED = {
    "if_": "`if:` is not asked here",
    "branches": "`branches:` is not asked here",
    "image": "it runs on this machine and not in its image",
    "plugins": "it runs on this machine and not in its plugins",
    "concurrency": "`concurrency:` is not kept here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """A step that was selected.

    number: its place among all, from 1. environ: what its own file and step set. need: the hardware it asks for, None for none. shards: how many times it
    runs, each with its number. waits: the steps it waits for, and whether their failure is tolerated. unfit: why it
    cannot run here, "" where it may. soft: the statuses that fail nothing, None for all of them.
    """

    id: str
    label: str
    number: int = 1
    commands: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    need: Need | None = None
    timeout_s: float | None = None
    shards: int = 1
    waits: Mapping[str, bool] = field(default_factory=dict)
    soft: frozenset[int] | None = frozenset()
    unfit: str = ""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return a name for a file, that no other job has: its number, the pipeline and the step."""
        return f"{self.number:02}-{slug(self.id.removeprefix('.buildkite/').replace('.yml#', ' '))}"

    def is_soft(self, status: int) -> bool:
        """Return whether *status* is a failure that the step itself forgives."""
        return status != 0 and (self.soft is None or status in self.soft)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The jobs, each behind those that it waits for, and what a reader should know."""

    jobs: tuple[LocalJob, ...]
    notices: tuple[str, ...] = ()


def jobs_of(plan: Plan, environ: Mapping[str, str]) -> Jobs:
    """Return what *plan* selected; *environ* is that of the upload, from which `$VARIABLES` are filled in.

    Raises InputError for a circle of dependencies and for a command that the agent would refuse.
    """
    running = {verdict.id for verdict in plan.selection.verdicts if verdict.runs and not verdict.is_gate}
    # one that is skipped is done for Buildkite, so that what waits for it waits for what it waited for
    waits = waits_of(plan.pipelines, running - set(_skipped(plan.pipelines)))
    jobs: list[LocalJob] = []
    for pipeline in plan.pipelines:
        reader = _Reader(pipeline, plan.configurations[pipeline.name], environ)
        for group, leaf in pipeline.leaves():
            name = step_id(pipeline.name, leaf.ident)
            if name in running:
                jobs.append(reader.job(leaf, waits.by_id.get(name, {}), group))
    people = {
        step_id(pipeline.name, leaf.ident)
        for pipeline in plan.pipelines
        for _, leaf in pipeline.leaves()
        if leaf.goes_along and not leaf.is_wait
    }
    gates = [
        f"{verdict.id} ({verdict.label}) is a gate for people; here nothing waits for them"
        for verdict in plan.selection.verdicts
        if verdict.runs and verdict.id in people
    ]
    ordered = [replace(job, number=number) for number, job in enumerate(_ordered(jobs), 1)]
    return Jobs(jobs=tuple(ordered), notices=(*waits.notices, *gates))


def _ordered(jobs: Sequence[LocalJob]) -> list[LocalJob]:
    """Return each job behind those that it waits for, else in the order of the files."""
    found: dict[str, LocalJob] = {}
    left = list(jobs)
    while left:
        job = next(one for one in left if one.waits.keys() <= found.keys())  # there is no circle
        found[job.id] = job
        left.remove(job)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Reader:
    pipeline: PipelineFile
    configuration: Configuration
    environ: Mapping[str, str]

    def job(self, leaf: Leaf, waits: Mapping[str, bool], group: Group | None) -> LocalJob:
        name, label = step_id(self.pipeline.name, leaf.ident), leaf.label or leaf.ident
        if isinstance(leaf, PlainStep):
            return LocalJob(id=name, label=label, waits=waits, unfit=f"a {leaf.kind} step has no commands")
        at = f"{place(leaf.where)}: step {label!r}"
        need, unfit = self._need(leaf, at)
        file_env = self._filled(self.pipeline.env or {}, at)
        own = file_env | self._filled(leaf.env or {}, at, file_env)
        return LocalJob(
            id=name,
            label=label,
            commands=tuple(self._text(command, at, file_env) for command in leaf.commands),
            environ=own,
            need=need,
            timeout_s=leaf.timeout_in_minutes * _MINUTE_S if leaf.timeout_in_minutes else None,
            shards=leaf.parallelism or 1,
            waits=waits,
            soft=_soft(leaf.soft_fail),
            unfit=_unfit(leaf, group) or unfit,
            notes=(
                *(said for key, said in _NOT_ASKED.items() if getattr(leaf, key) is not None),
                *(
                    ["its group's `if:` is not asked here"]
                    if group is not None and group.if_ is not None
                    else []
                ),
                *self._of_the_pod(leaf),
            ),
        )

    def _of_the_pod(self, leaf: Step) -> Iterator[str]:
        """Yield what the step's preset would bring to its pod, and is not there here."""
        preset = self.configuration.presets.get(leaf.mirror_hardwares or "")
        if preset is None or not isinstance(preset.row, SkuPreset):
            return
        if names := (*preset.row.env, *preset.row.job_env):
            yield f"its preset's environment is not set here: {', '.join(names)}"
        if preset.row.setup:
            yield f"its preset's `setup:` is not run here: {'; '.join(preset.row.setup)}"

    def _need(self, leaf: Step, at: str) -> tuple[Need | None, str]:
        """Return the hardware that the step's preset stands for, and why that cannot be told."""
        if leaf.mirror_hardwares is None:
            return None, ""
        preset = self.configuration.presets.find(leaf.mirror_hardwares, at=at)
        platform = preset.platform or self.configuration.equipment(self.pipeline.name).platform
        if platform is None:
            return None, f"preset {preset.name!r} does not say for which platform it is"
        skus = (preset.row.sku,) if isinstance(preset.row, SkuPreset) else ()
        return Need(platform=platform, skus=skus, cards=_cards(preset)), ""

    def _filled(
        self, values: Mapping[str, str], at: str, more: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        return {name: self._text(value, at, more or {}) for name, value in values.items()}

    def _text(self, text: str, at: str, more: Mapping[str, str]) -> str:
        try:
            return interpolate(text, {**self.environ, **more})
        except InterpolationError as error:
            raise InputError(f"{at}: the agent would refuse {error}") from None


def _cards(preset: Preset) -> int:
    return 1 if preset.cards is None else preset.cards


def _skipped(pipelines: Iterable[PipelineFile]) -> Iterator[str]:
    for pipeline in pipelines:
        for group, leaf in pipeline.leaves():
            if isinstance(leaf, Step) and any(part.skip for part in (leaf, group) if part):
                yield step_id(pipeline.name, leaf.ident)


def _unfit(leaf: Step, group: Group | None) -> str:
    for who, part in (("it", leaf), ("its group", group)):
        if part is not None and part.skip:
            return f"{who} says `skip:`{f': {part.skip}' if isinstance(part.skip, str) else ''}"
    if leaf.matrix is not None:
        return "its `matrix:` is expanded by Buildkite only"
    return "" if leaf.commands else "it has no commands"


def _soft(value: Any) -> frozenset[int] | None:
    """Return the statuses that `soft_fail` forgives, None for all."""
    if value is True:
        return None
    rules = value if isinstance(value, list) else []
    statuses = [rule.get("exit_status") for rule in rules if isinstance(rule, dict)]
    if "*" in statuses:
        return None
    flat = [one for status in statuses for one in (status if isinstance(status, list) else [status])]
    return frozenset(status for status in flat if isinstance(status, int))
