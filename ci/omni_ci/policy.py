"""Policy: what a repository decides about its CI, as data. Defaults ship with the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator

from omni_ci.hardware.host_access import NAMES as HOST_ACCESS
from omni_ci.hardware.variables import check_names, check_sources
from omni_ci.yaml.document import LocatedDict, Problem, Where
from omni_ci.yaml.fields import Located, Texts
from omni_ci.yaml.loading import load_document
from omni_ci.yaml.shapes import SignalReason
from omni_hardware.errors import did_you_mean
from omni_hardware.vocabulary import PLATFORMS

PLATFORM, TIER = "{platform}", "{tier}"


class _Starting(Located):
    """What starts a tier. Variables count in builds of the main branch, labels everywhere else."""

    label: Texts = ()
    on: Literal["pr", "main"] | None = None
    env: Texts = ()
    sweep: Texts = ()
    unlabelled: StrictBool = False
    starts: StrictBool = True

    @field_validator("env", "sweep")
    @classmethod
    def _are_variables(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_names(value)
        return value


class Tier(_Starting):
    """A test level and what starts it.

    label: any of these on a pull request. on: it follows the diff; `main` also starts it in every build of the
    main branch that no schedule started, `pr` in every other build where it has no label. env: any of these
    variables set to 1. sweep: likewise, for its end-to-end groups only. unlabelled: also a pull request with no
    label of such a tier. starts: false takes the tier from a platform.
    """

    level: StrictStr


class TierChange(_Starting):
    """What a platform does differently about a tier; what is not written stays."""


class PipelinePlace(Located):
    """The platform folder and the tier of a pipeline file, where its name does not hold them."""

    platform: StrictStr | None = None
    tier: StrictStr | None = None


class BootstrapPolicy(Located):
    """The steps of a bootstrap file by their keys, and the variable that names the tiers to start by hand."""

    image_keys: Texts
    upload_key: StrictStr
    suites_env: StrictStr

    @field_validator("upload_key")
    @classmethod
    def _holds_a_tier(cls, value: str) -> str:
        if value.count(TIER) != 1:
            raise ValueError(f"{value!r} must hold {TIER} once")
        return value

    @field_validator("suites_env")
    @classmethod
    def _is_a_variable(cls, value: str) -> str:
        check_names([value])
        return value


class CoveragePolicy(Located):
    """When coverage is measured, the files that change what it measures, and the ids of what is measured (none: any).

    scheduled: in builds that a schedule started; elsewhere the same tests run without it.
    """

    when: Literal["always", "scheduled"]
    inputs: Texts
    model_ids: Texts


class RetryRule(Located):
    """One automatic retry rule, in Buildkite's words."""

    exit_status: StrictInt | Literal["*"] | None = None
    signal_reason: SignalReason | None = None
    limit: Annotated[StrictInt, Field(ge=1, le=10)] = 1


class RetryPolicy(Located):
    """What is retried: infrastructure, never a test's own failure."""

    infra: tuple[RetryRule, ...]


class Allowed(Located):
    """What a pod may use, as patterns in which `*` is any text, slashes included: `registry.example/*` is all of it.

    host_access: ways to the host that host_paths does not allow, by their words (`privileged`), or "*".
    """

    queues: Texts
    images: Texts
    host_paths: Texts
    host_access: Texts

    @field_validator("host_access")
    @classmethod
    def _are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in {"*", *HOST_ACCESS}:
                raise ValueError(f"unknown host access {name!r}{did_you_mean(name, HOST_ACCESS)}")
        return value


class PodPolicy(Located):
    """What every pod must carry and may use; secrets map a variable to `secret-name/key`."""

    required_env: Texts
    secrets: dict[str, StrictStr]
    allow: Allowed

    @field_validator("secrets")
    @classmethod
    def _secrets_can_be_read(cls, value: dict[str, str]) -> dict[str, str]:
        check_names(value)
        check_sources(value)
        return value


class Policy(Located):
    """The whole policy, defaults filled in."""

    version: Literal[1] = Field(alias="schema")
    platforms: dict[str, StrictStr]
    tiers: dict[str, Tier]
    platform_tiers: dict[str, dict[str, TierChange]]
    pipelines: dict[str, PipelinePlace]
    bootstrap: BootstrapPolicy
    main_branch: StrictStr
    docs: Texts
    skip_marks: Texts
    run_all: Texts
    labels: dict[str, Texts]
    imports: Literal["report", "union"]
    coverage: CoveragePolicy
    retry: RetryPolicy
    pods: PodPolicy
    e2e_group: StrictStr

    @property
    def digest(self) -> str:
        """A name for exactly this policy: "sha256:…" of its values."""
        return f"sha256:{hashlib.sha256(self.model_dump_json(by_alias=True).encode()).hexdigest()}"

    @property
    def levels(self) -> tuple[str, ...]:
        """Every level, in the tiers' order."""
        return tuple(dict.fromkeys(tier.level for tier in self.tiers.values()))

    def tiers_on(self, folder: str) -> dict[str, Tier]:
        """Return the tiers that start on the platform *folder*, with what it does differently."""
        changes = self.platform_tiers.get(folder, {})
        found = {
            name: tier.model_copy(update=changes[name].model_dump(exclude_unset=True))
            if name in changes
            else tier
            for name, tier in self.tiers.items()
        }
        return {name: tier for name, tier in found.items() if tier.starts}

    def places(self) -> dict[str, tuple[str, str]]:
        """Return the pipeline files a diff may consist of, each with its platform folder and tier.

        What is written out in full wins over what the placeholders stand for.
        """
        found: dict[str, tuple[str, str]] = {}
        for path, row in sorted(self.pipelines.items(), key=lambda item: -_placeholders(item[0])):
            for platform, tier in product(self.platforms, self.tiers):
                if row.platform in {None, platform} and row.tier in {None, tier}:
                    found[path.replace(PLATFORM, platform).replace(TIER, tier)] = (platform, tier)
        return found


def default_policy() -> Policy:
    """Return the package's policy."""
    return load_document(default_text(), DEFAULT_NAME, Policy, check=_problems)


def load_policy(text: str | bytes, *, name: str) -> Policy:
    """Return the policy in *text* over the package's; raises LoadError with all problems and the nearest names."""
    return load_document(text, name, Policy, check=_problems, defaults=(DEFAULT_NAME, default_text()))


DEFAULT_NAME = "omni_ci/data/policy.yml"


def default_text() -> str:
    """Return the text of the package's policy, comments included."""
    return files("omni_ci").joinpath("data/policy.yml").read_text(encoding="utf-8")


def _problems(document: LocatedDict) -> Iterator[Problem]:
    """Yield the names that lead nowhere; the package's own may, where a repository took their tier or platform."""
    return (problem for problem in _dangling(document) if problem.where.file != DEFAULT_NAME)


def _dangling(document: LocatedDict) -> Iterator[Problem]:
    folders, tiers = (_mapping(document.get(name)) for name in ("platforms", "tiers"))
    for folder, platform in folders.items():
        if isinstance(platform, str) and platform not in PLATFORMS:
            what = f"platforms.{folder}: unknown platform {platform!r}{did_you_mean(platform, PLATFORMS)}"
            yield Problem(folders.keys_at[folder], what)
    changes = _mapping(document.get("platform_tiers"))
    yield from _unknown(changes, "platform_tiers", "platform", folders)
    for folder, changed in changes.items():
        yield from _unknown(_mapping(changed), f"platform_tiers.{folder}", "tier", tiers)
    for path, row in (pipelines := _mapping(document.get("pipelines"))).items():
        for what, names in (("platform", folders), ("tier", tiers)):
            yield from _misplaced(path, _mapping(row), what, names, pipelines.keys_at[path])


def _misplaced(path: str, row: LocatedDict, what: str, known: LocatedDict, where: Where) -> Iterator[Problem]:
    """Yield what keeps a pipeline's *path* from saying its platform or tier, once: in its name or beside it."""
    at, given = f"pipelines.{path}", row.get(what)
    if (f"{{{what}}}" in path) == (given is not None):
        both = "both in its name and beside it" if given is not None else "neither in its name nor beside it"
        yield Problem(where, f"{at} says its {what} {both}; write {{{what}}} in the path or `{what}: …`")
    elif isinstance(given, str) and given not in known:
        yield Problem(row.keys_at[what], f"{at}: unknown {what} {given!r}{did_you_mean(given, known)}")


def _unknown(names: LocatedDict, at: str, what: str, known: LocatedDict) -> Iterator[Problem]:
    for name in names:
        if name not in known:
            yield Problem(names.keys_at[name], f"{at}: unknown {what} {name!r}{did_you_mean(name, known)}")


def _mapping(value: Any) -> LocatedDict:
    """Return *value* where it is a mapping, else an empty one: its type is the model's to refuse."""
    return value if isinstance(value, LocatedDict) else LocatedDict(Where(""))


def _placeholders(path: str) -> int:
    return sum(path.count(placeholder) for placeholder in (PLATFORM, TIER))
