"""The presets of a file against each other and against policy: a variable that only one of them lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omni_ci.checks.findings import Finding
from omni_ci.checks.policy import check_policy
from omni_ci.hardware.holders import holders_of
from omni_ci.hardware.plugins import variables_of
from omni_ci.hardware.pod_checks import check_pods
from omni_ci.hardware.pods import Pods
from omni_ci.hardware.presets import Presets
from omni_ci.policy import Policy
from omni_ci.yaml.document import Where


def check_presets(presets: Presets, pods: Pods, policy: Policy) -> Iterator[Finding]:
    """Yield what is wrong with each preset, whether or not a step uses it: S11, S14, POLICY, and PRESET for a secret.

    Presets of one kind of device must all carry the secrets that any of them carries: the one without would fail
    alone, in the job. Raises InputError for a preset that cannot be rendered.
    """
    kinds: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    # a block makes a preset a card count, and what is wrong with all of them is said once
    alike: dict[tuple[Where, str, str], list[str]] = defaultdict(list)
    for name, preset in presets.by_name.items():
        fragment = pods.fragment(preset)
        for code, message in check_pods(fragment, preset=name):
            alike[preset.where, code, message].append(name)
        for message in check_policy(fragment, policy):
            alike[preset.where, "POLICY", message].append(name)
        if kind := preset.platform or _kind(fragment):
            kinds[kind][name] = fragment
    for (_, code, message), names in alike.items():
        yield _finding(presets, code, names[0], f"{_named(names)}: {message}")
    for fragments in kinds.values():
        yield from _lacking(presets, fragments)


def _named(names: Sequence[str]) -> str:
    return f"preset{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def _lacking(presets: Presets, alike: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    secrets = {name: set(_secrets(fragment)) for name, fragment in alike.items()}
    for variable in sorted(set().union(*secrets.values())):
        having = [name for name, held in secrets.items() if variable in held]
        others = f"{', '.join(having[:3])}{', …' if len(having) > 3 else ''}"
        blocks: dict[Where, list[str]] = defaultdict(list)
        for name in alike:
            if variable not in variables_of(alike[name]):
                blocks[presets.by_name[name].where].append(name)
        for names in blocks.values():
            yield _finding(
                presets,
                "PRESET",
                names[0],
                f"{_named(names)} {'have' if len(names) > 1 else 'has'} no {variable}, a secret that {others} "
                f"{'has' if len(having) == 1 else 'have'}; "
                "give it under `secrets:`, or to all by `pods.secrets` of the policy",
            )


def _finding(presets: Presets, code: str, name: str, message: str) -> Finding:
    where = presets.by_name[name].where
    return Finding(code=code, where=f"{where.file}:{where.line}", message=message)


def _kind(fragment: Mapping[str, Any]) -> str | None:
    """Return the kind of device a literal fragment asks for; None for one without."""
    return next((holder.kind for holder in holders_of(fragment) if holder.kind), None)


def _secrets(fragment: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables whose values a fragment leaves to the cluster or to the host."""
    for holder in holders_of(fragment):
        yield from holder.secrets
