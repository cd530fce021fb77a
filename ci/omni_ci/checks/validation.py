"""A rendered pipeline judged before anybody uploads it: schemas first, then what schemas cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from omni_ci.checks.findings import Finding, Level, Placed, document_place, placed
from omni_ci.checks.interpolation import Upload, check_interpolation
from omni_ci.checks.policy import check_policy, unjudged_plugins
from omni_ci.checks.schema import check_kubernetes, check_schema
from omni_ci.checks.secrets import Secrets, check_secrets, without_secrets
from omni_ci.checks.shell import check_shell
from omni_ci.checks.steps import Document, check_steps
from omni_ci.hardware.pod_checks import check_pods
from omni_ci.policy import Policy
from omni_hardware.errors import CheckError


def validate(
    document: Mapping[str, Any],
    *,
    origins: Mapping[tuple[int, ...], str] | None = None,
    presets: Mapping[tuple[int, ...], str] | None = None,
    places: Mapping[str, str] | None = None,
    known_keys: Iterable[str] = (),
    policy: Policy | None = None,
    environment: Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Return everything wrong with *document*, errors first; no message holds the value of a secret.

    origins: "file:line" of the source of each step, by its indices, and of the whole document at (); presets: the
    preset each step asked for; places: "file:line" of the presets, by their names; known_keys: step keys that other uploaded files define, which `depends_on` may name;
    policy: what pods may use, and the names of secrets; environment: names of variables that are set at upload.
    """
    origins = origins or {}
    where, steps = document_place(origins), list(placed(document, origins))
    top = {key: value for key, value in document.items() if key != "steps"}
    secrets = Secrets(named=frozenset(policy.pods.secrets if policy else ()))
    upload = Upload(known=frozenset(environment) | _started_by(policy), secrets=secrets)
    found = [
        *check_schema(document, steps, where=where),
        *check_steps(Document(steps=steps, known_keys=frozenset(known_keys))),
        *check_interpolation(top, steps, upload, where=where),
        *check_secrets(top, steps, secrets, where=where),
        *check_shell(steps),
        *_pods(steps, presets or {}),
        *(_policy(top, steps, policy, _whose(presets or {}, places or {}), where=where) if policy else ()),
        *check_kubernetes(steps),
    ]
    safe = without_secrets(list(dict.fromkeys(found)), top, steps, secrets)
    return tuple(sorted(safe, key=lambda finding: finding.level is Level.NOTICE))


def require_valid(findings: Iterable[Finding]) -> None:
    """Raise CheckError with every finding that is an error; notices pass."""
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        count = f"{len(errors)} problem{'s' if len(errors) > 1 else ''} in the generated pipeline"
        raise CheckError(f"{count}; it is not handed on\n" + "\n".join(f"  {finding}" for finding in errors))


def _started_by(policy: Policy | None) -> frozenset[str]:
    """Return the variables that start a tier: whoever starts a build by one sets it for the upload too."""
    return (
        frozenset(name for tier in policy.tiers.values() for name in (*tier.env, *tier.sweep))
        if policy
        else frozenset()
    )


def _pods(steps: Sequence[Placed], presets: Mapping[tuple[int, ...], str]) -> Iterator[Finding]:
    for one in steps:
        if isinstance(one.step, dict):
            for code, message in check_pods(one.step, preset=presets.get(one.path)):
                yield one.finding(code, message)


def _whose(
    presets: Mapping[tuple[int, ...], str], places: Mapping[str, str]
) -> Mapping[tuple[int, ...], str]:
    """Return what begins a sentence about the machines of the step at a path."""
    names = {
        name: f"preset {name!r} ({places[name]}): " if name in places else f"preset {name!r}: "
        for name in set(presets.values())
    }
    return {path: names[name] for path, name in presets.items()}


def _policy(
    top: Mapping[str, Any],
    steps: Sequence[Placed],
    policy: Policy,
    whose: Mapping[tuple[int, ...], str],
    *,
    where: str,
) -> Iterator[Finding]:
    # agents, image and env stand for every step where a file gives them
    shared = {key: top[key] for key in ("agents", "image", "env") if key in top}
    yield from (
        Finding(code="POLICY", where=where, message=message) for message in check_policy(shared, policy)
    )
    for one in steps:
        if isinstance(one.step, dict):
            messages = check_policy(one.step, policy, whose=whose.get(one.path, ""))
            yield from (one.finding("POLICY", message) for message in messages)
    yield from _unjudged(steps, policy)


def _unjudged(steps: Sequence[Placed], policy: Policy) -> Iterator[Finding]:
    """Yield a notice a plugin that nobody here knows, where a step has it first."""
    having: dict[str, list[Placed]] = {}
    for one in steps:
        for name in unjudged_plugins(one.step, policy) if isinstance(one.step, dict) else ():
            having.setdefault(name, []).append(one)
    for name, (first, *others) in having.items():
        more = f" (nor in {len(others)} more step{'s' if len(others) > 1 else ''})" if others else ""
        yield first.finding(
            "POLICY",
            f"what plugin {name!r} runs and mounts is not judged by {policy.where.file}{more}",
            level=Level.NOTICE,
        )
