"""Policy: what a repository decides about its CI, as data. Defaults ship with the package."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr, field_validator

from omni_ci.document import LocatedDict, Problem
from omni_ci.loading import load_document
from omni_ci.model import Located, Texts
from omni_ci.variables import check_names, check_secrets
from omni_hardware.errors import did_you_mean
from omni_hardware.vocabulary import PLATFORMS

SignalReason = Literal[
    "*",
    "none",
    "agent_incompatible",
    "agent_refused",
    "agent_stop",
    "cancel",
    "process_run_error",
    "signature_rejected",
    "stack_error",
]


class Tier(Located):
    """A test level and what starts it: a pull request's label, the main branch, or an environment variable."""

    level: StrictStr
    label: StrictStr | None = None
    on: Literal["pr", "main"] | None = None
    env: StrictStr | None = None


class CoveragePolicy(Located):
    """When coverage runs, the files that change what it measures, and the ids of what is measured (none: any)."""

    when: Literal["always", "scheduled"]
    inputs: Texts
    model_ids: Texts

    @field_validator("when")
    @classmethod
    def _built(cls, value: str) -> str:
        return _only("always", value)


class RetryRule(Located):
    """One automatic retry rule, in Buildkite's words."""

    exit_status: StrictInt | Literal["*"] | None = None
    signal_reason: SignalReason | None = None
    limit: Annotated[StrictInt, Field(ge=1, le=10)] = 1


class RetryPolicy(Located):
    """What is retried: infrastructure, never a test's own failure."""

    infra: tuple[RetryRule, ...]


class Allowed(Located):
    """What a pod may use; patterns, `*` within one path segment or name."""

    queues: Texts
    images: Texts
    host_paths: Texts


class PodPolicy(Located):
    """What every pod must carry and may use; secrets map a variable to `secret-name/key`."""

    required_env: Texts
    secrets: dict[str, StrictStr]
    allow: Allowed

    @field_validator("secrets")
    @classmethod
    def _secrets_can_be_read(cls, value: dict[str, str]) -> dict[str, str]:
        check_names(value)
        check_secrets(value)
        return value


class Policy(Located):
    """The whole policy, defaults filled in."""

    version: Literal[1] = Field(alias="schema")
    platforms: dict[str, StrictStr]
    tiers: dict[str, Tier]
    main_branch: StrictStr
    docs: Texts
    run_all: Texts
    labels: dict[str, Texts]
    imports: Literal["report", "union"]
    coverage: CoveragePolicy
    retry: RetryPolicy
    pods: PodPolicy
    e2e_group: StrictStr

    @field_validator("imports")
    @classmethod
    def _built(cls, value: str) -> str:
        return _only("report", value)

    @property
    def digest(self) -> str:
        """A name for exactly this policy: "sha256:…" of its values."""
        return f"sha256:{hashlib.sha256(self.model_dump_json(by_alias=True).encode()).hexdigest()}"


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


def _only(built: str, value: str) -> str:
    """Refuse what this version would take and not do. Raises ValueError."""
    if value != built:
        raise ValueError(f"{value!r} is not built yet; {built!r} is the only value that does anything")
    return value


def _problems(document: LocatedDict) -> Iterator[Problem]:
    platforms = document.get("platforms")
    if not isinstance(platforms, LocatedDict):
        return
    for folder, platform in platforms.items():
        if isinstance(platform, str) and platform not in PLATFORMS:
            what = f"platforms.{folder}: unknown platform {platform!r}{did_you_mean(platform, PLATFORMS)}"
            yield Problem(platforms.keys_at[folder], what)
