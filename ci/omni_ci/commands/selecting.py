"""The flags that say which steps are wanted, shared by every command that selects."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal  # noqa: F401 - cyclopts reads the hints of the flags of Changing here

from cyclopts import Parameter

from omni_ci.commands.arguments import Words, named, one_named
from omni_ci.commands.changing import Changing, given
from omni_ci.configuration import ConfigKind
from omni_ci.planning import Asked, Plan, make_plan
from omni_ci.selection.judging import Mode
from omni_ci.selection.only import FLAG, VARIABLE, keys_from
from omni_hardware.errors import InputError


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting(Changing):
    """What to select by, and the files to select with.

    Parameters
    ----------
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
    presets
        The presets file, instead of the one found beside the pipeline or in .buildkite/.
    dependencies
        The registry of watched paths, likewise.
    templates
        The folder of pod templates, instead of .buildkite/templates.
    durations
        The file of measured minutes (default: .buildkite/durations.json where there is one).

    """

    all: Annotated[bool, Parameter(negative="")] = False
    e2e: Annotated[bool, Parameter(negative="")] = False
    only: Words = None
    stored: Annotated[str | None, Parameter(name="--from")] = None
    label: Words = None
    presets: str | None = None
    dependencies: str | None = None
    templates: str | None = None
    durations: str | None = None

    def plan(self, files: tuple[str, ...]) -> Plan:
        """Return the plan for *files*, from the folder and environment of this process. Raises InputError."""
        return make_plan(self.asked(*files), here=Path.cwd(), environ=os.environ)

    def asked(self, *files: str) -> Asked:
        """Return what these flags and the environment ask about *files*. Raises InputError."""
        if self.all and self.e2e:
            raise InputError("--all and --e2e exclude each other; each says what to select by itself")
        only = named(FLAG, self.only, "the key of a step")
        others = {
            ConfigKind.PRESETS: self.presets,
            ConfigKind.REGISTRY: self.dependencies,
            ConfigKind.TEMPLATE: self.templates,
        }
        diff = Changing.asked(self, *files)
        return replace(
            diff,
            mode=Mode.ALL if self.all else Mode.E2E if self.e2e else Mode.DIFF,
            labels=named("--label", self.label, "a label"),
            only=only or keys_from(os.environ),
            only_by=FLAG if only else VARIABLE,
            stored=one_named("--from", self.stored),
            durations=one_named("--durations", self.durations),
            given={**diff.given, **given(others)},
        )
