"""A rendered pipeline judged before anybody uploads it: schemas first, then what schemas cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omni_ci.findings import Finding, Level, Placed, placed
from omni_ci.pod_checks import check_pods
from omni_ci.policy import Policy
from omni_ci.policy_checks import check_policy
from omni_ci.schema_checks import check_kubernetes, check_schema
from omni_ci.step_checks import Document, check_steps
from omni_hardware.errors import CheckError


def validate(
    document: Mapping[str, Any],
    *,
    origins: Mapping[tuple[int, ...], str] | None = None,
    presets: Mapping[tuple[int, ...], str] | None = None,
    known_keys: Iterable[str] = (),
    policy: Policy | None = None,
) -> tuple[Finding, ...]:
    """Return everything wrong with *document*, errors first.

    origins: "file:line" of the source of each step, by its indices; presets: the preset each step asked for;
    known_keys: step keys that other uploaded files define, which `depends_on` may name; policy: what pods may use.
    """
    steps = list(placed(document, origins or {}))
    found = [
        *check_schema(document, steps),
        *check_steps(Document(steps=steps, known_keys=frozenset(known_keys))),
        *_pods(steps, presets or {}),
        *(_policy(document, steps, policy) if policy else ()),
        *check_kubernetes(steps),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.level is Level.NOTICE))


def require_valid(findings: Iterable[Finding]) -> None:
    """Raise CheckError with every finding that is an error; notices pass."""
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        count = f"{len(errors)} problem{'s' if len(errors) > 1 else ''} in the generated pipeline"
        raise CheckError(f"{count}; nothing was uploaded\n" + "\n".join(f"  {finding}" for finding in errors))


def _pods(steps: list[Placed], presets: Mapping[tuple[int, ...], str]) -> Iterator[Finding]:
    for one in steps:
        if isinstance(one.step, dict):
            for code, message in check_pods(one.step, preset=presets.get(one.path)):
                yield one.finding(code, message)


def _policy(document: Mapping[str, Any], steps: list[Placed], policy: Policy) -> Iterator[Finding]:
    # agents, image and env stand for every step where a file gives them
    top = {key: document[key] for key in ("agents", "image") if key in document}
    yield from (
        Finding(code="POLICY", where="pipeline", message=message) for message in check_policy(top, policy)
    )
    for one in steps:
        if isinstance(one.step, dict):
            yield from (one.finding("POLICY", message) for message in check_policy(one.step, policy))
