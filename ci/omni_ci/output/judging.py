"""A rendered pipeline as it would be uploaded, and everything wrong with it."""

from __future__ import annotations

from collections.abc import Iterable

from omni_ci.checks.findings import Finding
from omni_ci.checks.validation import validate
from omni_ci.configuration import Configuration
from omni_ci.output.neighbours import step_keys
from omni_ci.output.splitting import split
from omni_ci.rendering.steps import Rendered


def uploads_of(
    rendered: Rendered, configuration: Configuration, *, known_keys: Iterable[str] = ()
) -> tuple[tuple[Rendered, ...], tuple[Finding, ...]]:
    """Return *rendered* in its uploads, and the findings about the whole and about each of several.

    Raises InputError for a pipeline that is too large for one upload and cannot be divided.
    """
    parts = split(rendered)
    found = findings_of(rendered, configuration, known_keys=known_keys)
    if len(parts) == 1:
        return parts, found
    # S12 is about one upload, and the whole is none
    each = [finding for finding in found if finding.code != "S12"]
    earlier = frozenset(known_keys)
    for part in parts:
        each += findings_of(part, configuration, known_keys=earlier)
        earlier |= frozenset(step_keys(part.document))
    return parts, tuple(dict.fromkeys(each))


def findings_of(
    rendered: Rendered, configuration: Configuration, *, known_keys: Iterable[str] = ()
) -> tuple[Finding, ...]:
    """Return what is wrong with *rendered* as one document; *known_keys* are step keys of other uploads."""
    return validate(
        rendered.document,
        origins=rendered.origins,
        presets=rendered.presets,
        places=configuration.presets.places,
        known_keys=known_keys,
        policy=configuration.policy,
    )
