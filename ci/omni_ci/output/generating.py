"""One pipeline file to the validated YAML that is uploaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from omni_ci.checks.findings import Finding
from omni_ci.checks.schema import kubernetes_is_checked
from omni_ci.checks.validation import require_valid, validate
from omni_ci.output.neighbours import neighbours_of, step_keys
from omni_ci.output.splitting import split
from omni_ci.planning import Plan
from omni_ci.rendering.steps import Rendered, render
from omni_ci.yaml.emitting import to_yaml
from omni_hardware.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The YAML of one pipeline, an upload each; none where nothing is selected. *notices* a reader should know."""

    parts: tuple[str, ...]
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
        return Generated(parts=(), notices=(*beside.notices, *rendered.notices))
    parts = split(rendered)
    judged = partial(validate, policy=configuration.policy, places=configuration.presets.places)
    findings = tuple(_findings(rendered, parts, judged, beside.keys | known_keys))
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


def _findings(
    whole: Rendered,
    parts: tuple[Rendered, ...],
    judged: Callable[..., tuple[Finding, ...]],
    known: frozenset[str],
) -> Iterable[Finding]:
    """Return what is wrong with the pipeline, and with each upload by itself where there are several."""
    found = judged(whole.document, origins=whole.origins, presets=whole.presets, known_keys=known)
    if len(parts) == 1:
        return found
    # S12 is about one upload, and the whole is none
    each = [finding for finding in found if finding.code != "S12"]
    earlier = known
    for part in parts:
        each += judged(part.document, origins=part.origins, presets=part.presets, known_keys=earlier)
        earlier |= frozenset(step_keys(part.document))
    return dict.fromkeys(each)
