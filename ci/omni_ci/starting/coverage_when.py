"""Which steps of a pipeline measure coverage in this build: where policy says so, only those of scheduled builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omni_ci.coverage.split import OFF, VARIABLE
from omni_ci.planning import Plan
from omni_ci.policy import Policy
from omni_ci.shell.invocations import invocations
from omni_ci.starting.builds import is_scheduled
from omni_ci.yaml.model import Group, Leaf, PipelineFile, Step


def measured_plan(plan: Plan, *, environ: Mapping[str, str]) -> Plan:
    """Return *plan* with its pipelines as `measured_when` has them, and what that says among its notices."""
    found = [
        measured_when(one, plan.configurations[one.name].policy, environ=environ) for one in plan.pipelines
    ]
    said = (notice for _, notices in found for notice in notices)
    return replace(plan, pipelines=tuple(pipeline for pipeline, _ in found), notices=(*plan.notices, *said))


def measured_when(
    pipeline: PipelineFile, policy: Policy, *, environ: Mapping[str, str]
) -> tuple[PipelineFile, tuple[str, ...]]:
    """Return *pipeline* as the build that *environ* describes runs it, and what to say about it.

    With `coverage.when: scheduled`, steps that measure run their tests without measuring in every build that no
    schedule started. A step that sets the variable itself keeps its word.
    """
    if policy.coverage.when == "always" or is_scheduled(policy, environ):
        return pipeline, ()
    plain = {leaf.ident for _, leaf in pipeline.leaves() if _measures(leaf)}
    if not plain:
        return pipeline, ()
    steps = tuple(_told(item, plain) for item in pipeline.steps)
    told = (
        f"{', '.join(sorted(plain))}: the tests run, coverage is not measured; coverage.when of "
        f"{policy.where.file} is scheduled, and no schedule started this build"
    )
    return pipeline.model_copy(update={"steps": steps}), (told,)


def _measures(leaf: Leaf) -> bool:
    if not isinstance(leaf, Step) or VARIABLE in (leaf.env or {}):
        return False
    return invocations(leaf.commands).measures_coverage


def _told(item: Group | Leaf, plain: set[str]) -> Group | Leaf:
    if isinstance(item, Group):
        return item.model_copy(update={"steps": tuple(_told(leaf, plain) for leaf in item.steps)})
    if isinstance(item, Step) and item.ident in plain:
        return item.model_copy(update={"env": {**(item.env or {}), VARIABLE: OFF}})
    return item
