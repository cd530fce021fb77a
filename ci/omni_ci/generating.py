"""One pipeline file to the validated YAML that is uploaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omni_ci.emitting import to_yaml
from omni_ci.findings import Finding
from omni_ci.neighbours import neighbours_of
from omni_ci.planning import Plan
from omni_ci.rendering import render
from omni_ci.schema_checks import kubernetes_is_checked
from omni_ci.validation import require_valid, validate
from omni_hardware.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The YAML of one pipeline, None where nothing is selected, and what a reader should know about it."""

    text: str | None
    notices: tuple[str, ...]


def generate_one(plan: Plan, *, known_keys: Iterable[str] = ()) -> Generated:
    """Return the pipeline of *plan*, which holds one file, rendered and judged.

    Raises InputError for an unknown preset, DroppedKeyError for a lost key, CheckError with every finding.
    """
    if len(plan.pipelines) != 1:
        raise InputError(f"one pipeline is uploaded at a time, not {len(plan.pipelines)}")
    pipeline = plan.pipelines[0]
    known_keys = frozenset(known_keys)
    beside = neighbours_of(plan, known_keys=known_keys)
    configuration = plan.configurations[pipeline.name]
    rendered = render(
        pipeline,
        configuration.equipment(pipeline.name),
        runs=plan.selection.running(pipeline.name),
        beside=beside.pipelines,
    )
    if rendered.is_empty:
        return Generated(text=None, notices=(*beside.notices, *rendered.notices))
    findings: tuple[Finding, ...] = validate(
        rendered.document,
        origins=rendered.origins,
        presets=rendered.presets,
        known_keys=beside.keys | known_keys,
        policy=configuration.policy,
    )
    require_valid(findings)
    unchecked = (
        ()
        if kubernetes_is_checked()
        else ("pods were not judged by Kubernetes' schema: the `validate` extra is not installed",)
    )
    return Generated(
        text=to_yaml(rendered.document),
        notices=(*beside.notices, *rendered.notices, *map(str, findings), *unchecked),
    )
