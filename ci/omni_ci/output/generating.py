"""Pipeline files to the validated YAML that is uploaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omni_ci.checks.schema import kubernetes_is_checked
from omni_ci.checks.validation import require_valid
from omni_ci.configuration import Configuration
from omni_ci.output.judging import uploads_of
from omni_ci.output.neighbours import neighbours_of
from omni_ci.output.suites import joined
from omni_ci.planning import Plan
from omni_ci.rendering.steps import render
from omni_ci.yaml.emitting import to_yaml
from omni_hardware.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The YAML of what is uploaded, an upload each; none where nothing is selected. *notices* a reader should know."""

    parts: tuple[str, ...]
    notices: tuple[str, ...]


def generated(plan: Plan, *, known_keys: Iterable[str] = ()) -> Generated:
    """Return the pipelines of *plan* rendered into one and judged, a job that two files have once.

    Raises InputError for an unknown preset, for files that cannot be one upload, DroppedKeyError for a lost key,
    CheckError with every finding.
    """
    configuration = _configuration(plan)
    known_keys = frozenset(known_keys)
    beside = neighbours_of(plan, known_keys=known_keys)
    running = [(one, plan.selection.running(one.name)) for one in plan.pipelines]
    rendered = joined(
        [
            (
                pipeline,
                render(
                    pipeline,
                    plan.configurations[pipeline.name].equipment(pipeline.name),
                    runs=runs,
                    beside=(*(one for one in running if one[0] is not pipeline), *beside.pipelines),
                ),
            )
            for pipeline, runs in running
        ]
    )
    if rendered.is_empty:
        return Generated(parts=(), notices=(*beside.notices, *rendered.notices))
    parts, findings = uploads_of(rendered, configuration, known_keys=beside.keys | known_keys)
    require_valid(findings)
    unchecked = (
        ()
        if kubernetes_is_checked()
        else ("pods were not judged by Kubernetes' schema: the `validate` extra is not installed",)
    )
    return Generated(
        parts=tuple(to_yaml(part.document) for part in parts),
        notices=(*beside.notices, *rendered.notices, *map(str, findings), *unchecked),
    )


def _configuration(plan: Plan) -> Configuration:
    """Return what all pipelines of *plan* are judged by. Raises InputError where that is not one."""
    first, *others = plan.pipelines
    configuration = plan.configurations[first.name]
    for other in others:
        if plan.configurations[other.name].texts != configuration.texts:
            raise InputError(
                f"{first.name} and {other.name} have other presets, policies or templates, so that they cannot be one "
                "upload; upload them one by one"
            )
    return configuration
