"""The flags that say which steps are wanted, shared by every command that selects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from omni_ci.planning import Asked, Plan, make_plan
from omni_ci.selection import ConfigKind, Mode
from omni_hardware.errors import InputError


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting:
    """What to select by, and the files to select with.

    Parameters
    ----------
    base
        Compare with the merge base of this commit.
    head
        The commit whose changes count (default: HEAD, or the build's commit).
    changed
        Paths taken as changed, instead of asking git.
    all
        Every step, whatever changed.
    e2e
        The end-to-end groups, whatever changed.
    label
        A pull request's label, which policy may map to steps.
    presets
        The presets file, instead of the one found beside the pipeline or in .buildkite/.
    dependencies
        The registry of watched paths, likewise.
    policy
        The policy file, likewise.

    """

    base: str | None = None
    head: str | None = None
    changed: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None
    all: Annotated[bool, Parameter(negative="")] = False
    e2e: Annotated[bool, Parameter(negative="")] = False
    label: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None
    presets: str | None = None
    dependencies: str | None = None
    policy: str | None = None

    def plan(self, files: tuple[str, ...]) -> Plan:
        """Return the plan for *files*, from the folder and environment of this process. Raises InputError."""
        if self.all and self.e2e:
            raise InputError("--all and --e2e exclude each other; each says what to select by itself")
        changed = named("--changed", self.changed, "a path")
        labels = named("--label", self.label, "a label")
        given = {
            ConfigKind.PRESETS: self.presets,
            ConfigKind.REGISTRY: self.dependencies,
            ConfigKind.POLICY: self.policy,
        }
        asked = Asked(
            files=files,
            base=self.base,
            head=self.head,
            changed=changed,
            mode=Mode.ALL if self.all else Mode.E2E if self.e2e else Mode.DIFF,
            labels=labels,
            given={kind: path for kind, path in given.items() if path is not None},
        )
        return make_plan(asked, here=Path.cwd(), environ=os.environ)


def named(flag: str, values: tuple[str, ...] | None, what: str) -> tuple[str, ...]:
    """Return the values of *flag*, () where it was not given. Raises InputError for a flag that names nothing.

    `--changed $(a command that printed nothing)` would otherwise ask another question than the one meant.
    """
    if values is not None and not all(values or ("",)):
        raise InputError(f"{flag} names nothing; give it {what}, or leave it out")
    return values or ()
