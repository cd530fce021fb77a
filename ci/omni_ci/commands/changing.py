"""The flags that say what changed and by which policy it is judged, shared by `gate` and `bootstrap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from omni_ci.commands.selecting import named
from omni_ci.configuration import ConfigKind
from omni_ci.selection.asking import Asked


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
        Paths taken as changed, instead of asking git; a test file among them is more than skip marks.
    config_from
        Read the policy from the merge base or the head (default: the head, for a pull request from a fork the base).
    policy
        The policy file, instead of the one found beside the pipelines or in .buildkite/.

    """

    base: str | None = None
    head: str | None = None
    changed: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None
    config_from: Literal["base", "head"] | None = None
    policy: str | None = None

    def asked(self, *files: str) -> Asked:
        """Return what these flags ask about *files*. Raises InputError."""
        return Asked(
            files=files,
            base=self.base,
            head=self.head,
            changed=named("--changed", self.changed, "a path"),
            config_from=self.config_from,
            given={ConfigKind.POLICY: self.policy} if self.policy is not None else {},
        )
