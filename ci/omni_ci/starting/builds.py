"""When a step of a bootstrap file starts: Buildkite conditions from the policy and from what the change leaves out.

A tier starts by schedule (a variable in a build of the main branch), by a push to it, or by a pull request's label.
A change that runs nothing leaves the schedules; a tier that a diff of pipeline files has switched off has no way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from omni_ci.policy import TIER, Policy, Tier
from omni_ci.starting.skipping import Decision, Kind
from omni_hardware.errors import InputError, did_you_mean

ALWAYS, NEVER = "true", "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a bootstrap is decided from: *platform* is a folder of the policy's, *named* the tiers started by hand."""

    policy: Policy
    platform: str
    decision: Decision
    named: tuple[str, ...] | None = None

    @property
    def tiers(self) -> Mapping[str, Tier]:
        return self.policy.tiers_on(self.platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Whether a step is uploaded, and its condition (None: it needs no `if`); one that is not has a reason.

    *tier* is the one whose pipeline the step uploads.
    """

    condition: str | None = None
    left_out: str | None = None
    tier: Tier | None = None


def start_of(key: str | None, situation: Situation) -> Start | None:
    """Return when the step with *key* starts; None where the policy says nothing of it.

    Raises InputError for the key of a tier there is not.
    """
    policy, tiers = situation.policy, situation.tiers
    if key is None:
        return None
    if any(fnmatchcase(key, pattern) for pattern in policy.bootstrap.image_keys):
        if situation.decision.kind is Kind.NORMAL and situation.named is None:
            return Start()
        ways = [way for name in tiers for way in _ways(name, situation)]
        because = f"nothing is uploaded that needs it: {situation.decision.because}"
        return _started(any_of(ways), because)
    name = _tier_of(key, policy)
    if name is None:
        return None
    if name not in tiers:
        return Start(left_out=f"{name} does not start on {situation.platform} ({_says(policy)})")
    return _started(any_of(_ways(name, situation)), _why_never(name, situation), tiers[name])


def named_tiers(text: str, *, policy: Policy, platform: str) -> tuple[str, ...] | None:
    """Return the tiers that *text*, the value of the policy's `suites_env`, names; None where it names none.

    Raises InputError for one that does not start on *platform* and for one named twice.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    variable, tiers = policy.bootstrap.suites_env, policy.tiers_on(platform)
    for index, name in enumerate(names):
        if name not in tiers:
            hint = did_you_mean(name, tiers)
            raise InputError(f"{variable}={text}: no tier {name!r} starts on {platform}{hint}")
        if name in names[:index]:
            raise InputError(f"{variable}={text}: {name!r} is named twice")
    return tuple(names) or None


def is_sweep(tier: Tier, environ: Mapping[str, str], *, main_branch: str) -> bool:
    """Return whether the build that *environ* describes starts *tier* for its end-to-end groups only."""
    is_main = environ.get("BUILDKITE_BRANCH") == main_branch
    return is_main and any(environ.get(name) == "1" for name in tier.sweep)


def is_scheduled(policy: Policy, environ: Mapping[str, str]) -> bool:
    """Return whether a schedule of the policy started the build that *environ* describes."""
    schedules = (name for tier in policy.tiers.values() for name in (*tier.env, *tier.sweep))
    is_main = environ.get("BUILDKITE_BRANCH") == policy.main_branch
    return is_main and any(environ.get(name) == "1" for name in schedules)


def any_of(conditions: Iterable[str]) -> str:
    """Return the condition that holds where one of *conditions* does."""
    return _joined("||", conditions, neutral=NEVER, deciding=ALWAYS)


def all_of(conditions: Iterable[str]) -> str:
    """Return the condition that holds where all of *conditions* do."""
    return _joined("&&", conditions, neutral=ALWAYS, deciding=NEVER)


def _started(condition: str, because: str, tier: Tier | None = None) -> Start:
    if condition == NEVER:
        return Start(left_out=because, tier=tier)
    whole = condition if condition.startswith("(") else f"({condition})"
    return Start(condition=None if condition == ALWAYS else whole, tier=tier)


def _tier_of(key: str, policy: Policy) -> str | None:
    """Return the tier whose pipeline a step with *key* uploads. Raises InputError for a tier there is not."""
    before, after = policy.bootstrap.upload_key.split(TIER)
    if not (key.startswith(before) and key.endswith(after) and len(key) > len(before) + len(after)):
        return None
    name = key[len(before) : len(key) - len(after)]
    if name not in policy.tiers:
        hint = did_you_mean(name, policy.tiers)
        raise InputError(f"key {key!r}: there is no tier {name!r} in {policy.where.file}{hint}")
    return name


def _ways(name: str, situation: Situation) -> Iterator[str]:
    """Yield the conditions each of which starts the tier *name*."""
    tier, decision = situation.tiers[name], situation.decision
    if decision.kind is Kind.GATED and not decision.is_run(situation.platform, tier.level):
        return
    if situation.named is not None:
        if name in situation.named and decision.kind is not Kind.SKIP_ALL:
            yield ALWAYS
        return
    yield _scheduled(tier, situation.policy)
    if decision.kind is not Kind.SKIP_ALL:
        yield _pushed(tier, situation)
        yield _labelled(tier, situation)


def _why_never(name: str, situation: Situation) -> str:
    """Return why the tier *name* has no way to start, for the case that it has none."""
    if situation.named is not None and name not in situation.named:
        return f"{situation.policy.bootstrap.suites_env} names only {', '.join(situation.named)}"
    if any_of(_ways(name, replace(situation, decision=_NORMAL))) != NEVER:
        return situation.decision.because
    return f"nothing starts {name} on {situation.platform} ({_says(situation.policy)})"


_NORMAL = Decision(kind=Kind.NORMAL, because="nothing is left out")


def _says(policy: Policy) -> str:
    return f"tiers and platform_tiers of {policy.where.file}"


def _scheduled(tier: Tier, policy: Policy) -> str:
    """A build of the main branch with one of the tier's variables."""
    return all_of([_branch("==", policy), any_of(_env(name, "==") for name in (*tier.env, *tier.sweep))])


def _pushed(tier: Tier, situation: Situation) -> str:
    """A build of the main branch that no schedule started."""
    if tier.on != "main":
        return NEVER
    tiers = (*situation.policy.tiers.values(), *situation.tiers.values())
    schedules = dict.fromkeys(name for one in tiers for name in (*one.env, *one.sweep))
    return all_of([_branch("==", situation.policy), *(_env(name, "!=") for name in schedules)])


def _labelled(tier: Tier, situation: Situation) -> str:
    """Any other build with one of the tier's labels; without one where the tier wants none."""
    elsewhere = _branch("!=", situation.policy)
    if tier.on == "pr" and not tier.label:
        return elsewhere
    wanted = any_of(map(_label, tier.label))
    if tier.unlabelled:
        labels = dict.fromkeys(label for one in situation.tiers.values() if one.on for label in one.label)
        wanted = any_of([wanted, all_of(f"!({_label(label)})" for label in labels)])
    return all_of([elsewhere, wanted])


def _branch(comparison: str, policy: Policy) -> str:
    return f"build.branch {comparison} {_quoted(policy.main_branch)}"


def _env(name: str, comparison: str) -> str:
    return f'build.env({_quoted(name)}) {comparison} "1"'


def _label(name: str) -> str:
    return f"build.pull_request.labels includes {_quoted(name)}"


def _quoted(text: str) -> str:
    """Return *text* as a string of Buildkite's conditions, in a file whose `$` the agent reads."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'


def _joined(operator: str, conditions: Iterable[str], *, neutral: str, deciding: str) -> str:
    """Return *conditions* joined, in parentheses; one that is *neutral* goes, one that is *deciding* stands alone."""
    parts = [one for one in dict.fromkeys(conditions) if one != neutral]
    if deciding in parts:
        return deciding
    if len(parts) < 2:
        return parts[0] if parts else neutral
    return f"({f' {operator} '.join(parts)})"
