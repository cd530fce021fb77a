"""The flags that say what changed and where configuration is read from: all that `gate` and `bootstrap` ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cyclopts import Parameter

from omni_ci.commands.arguments import Words, named, one_named
from omni_ci.configuration import ConfigKind
from omni_ci.selection.asking import Asked

_FLAGS = {
    ConfigKind.PRESETS: "--presets",
    ConfigKind.REGISTRY: "--dependencies",
    ConfigKind.POLICY: "--policy",
    ConfigKind.TEMPLATE: "--templates",
}


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Changing:
    """What changed, and the policy to judge it by.

    Parameters
    ----------
    base
        Compare with the merge base of this commit.
    head
        The commit whose changes count (default: HEAD, or the build's commit).
    changed
        Paths taken as changed, instead of asking git.
    config_from
        Read policy and whatever else is read beside pipelines from the merge base or the head (default: the head, for
        a pull request from a fork the base).
    policy
        The policy file, instead of the one found beside the pipelines or in .buildkite/.

    """

    base: str | None = None
    head: str | None = None
    changed: Words = None
    config_from: Literal["base", "head"] | None = None
    policy: str | None = None

    def asked(self, *files: str) -> Asked:
        """Return what these flags ask about *files*. Raises InputError."""
        return Asked(
            files=files,
            base=one_named("--base", self.base, "a commit"),
            head=one_named("--head", self.head, "a commit"),
            changed=named("--changed", self.changed, "a path"),
            config_from=self.config_from,
            given=given({ConfigKind.POLICY: self.policy}),
        )


def given(paths: Mapping[ConfigKind, str | None]) -> Mapping[ConfigKind, str]:
    """Return the files that were named. Raises InputError for a flag that names none."""
    return {kind: path for kind, path in paths.items() if one_named(_FLAGS[kind], path) is not None and path}
