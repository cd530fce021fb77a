"""The flags that say which steps are wanted, shared by every command that selects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from omni_ci.configuration import ConfigKind
from omni_ci.planning import Asked, Plan, make_plan
from omni_ci.selection.judging import Mode
from omni_ci.selection.only import FLAG, VARIABLE, keys_from
from omni_hardware.errors import InputError

_Words = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]


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
    only
        The steps of these keys and all they wait for, whatever changed.
    stored
        A selection.json, whose verdicts are taken as they are.
    label
        A pull request's label, which policy may map to steps.
    config_from
        Read presets, registry, policy and templates from the merge base or the head (default: the head, for a pull
        request from a fork the base).
    presets
        The presets file, instead of the one found beside the pipeline or in .buildkite/.
    dependencies
        The registry of watched paths, likewise.
    policy
        The policy file, likewise.
    templates
        The folder of pod templates, instead of .buildkite/templates.
    durations
        The file of measured minutes (default: .buildkite/durations.json where there is one).

    """

    base: str | None = None
    head: str | None = None
    changed: _Words = None
    all: Annotated[bool, Parameter(negative="")] = False
    e2e: Annotated[bool, Parameter(negative="")] = False
    only: _Words = None
    stored: Annotated[str | None, Parameter(name="--from")] = None
    label: _Words = None
    config_from: Literal["base", "head"] | None = None
    presets: str | None = None
    dependencies: str | None = None
    policy: str | None = None
    templates: str | None = None
    durations: str | None = None

    def plan(self, files: tuple[str, ...]) -> Plan:
        """Return the plan for *files*, from the folder and environment of this process. Raises InputError."""
        return make_plan(self.asked(files, os.environ), here=Path.cwd(), environ=os.environ)

    def asked(self, files: tuple[str, ...], environ: Mapping[str, str]) -> Asked:
        """Return what these flags and *environ* ask about *files*. Raises InputError."""
        if self.all and self.e2e:
            raise InputError("--all and --e2e exclude each other; each says what to select by itself")
        given = {
            ConfigKind.PRESETS: self.presets,
            ConfigKind.REGISTRY: self.dependencies,
            ConfigKind.POLICY: self.policy,
            ConfigKind.TEMPLATE: self.templates,
        }
        only = named(FLAG, self.only, "the key of a step")
        return Asked(
            files=files,
            base=self.base,
            head=self.head,
            changed=named("--changed", self.changed, "a path"),
            mode=Mode.ALL if self.all else Mode.E2E if self.e2e else Mode.DIFF,
            labels=named("--label", self.label, "a label"),
            only=only or keys_from(environ),
            only_by=FLAG if only else VARIABLE,
            stored=self.stored,
            config_from=self.config_from,
            durations=self.durations,
            given={kind: path for kind, path in given.items() if path is not None},
        )


def named(flag: str, values: tuple[str, ...] | None, what: str) -> tuple[str, ...]:
    """Return the values of *flag*, () where it was not given. Raises InputError for a flag that names nothing.

    `--changed $(a command that printed nothing)` would otherwise ask another question than the one meant.
    """
    if values is not None and not all(values or ("",)):
        raise InputError(f"{flag} names nothing; give it {what}, or leave it out")
    return values or ()
