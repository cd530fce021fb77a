"""One pipeline file made ready to print or to upload: what `generate` and `upload` share."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import Parameter

from omni_ci.commands.selecting import Selecting, named
from omni_ci.output.generating import Generated, generate_one
from omni_ci.planning import Plan
from omni_ci.showing.report import say
from omni_ci.starting.coverage_when import measured_plan

KnownKeys = Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")]
"""The flag for keys of steps that live only in Buildkite."""


def made_ready(
    file: str, *, known_key: tuple[str, ...] | None, selecting: Selecting
) -> tuple[Plan, Generated]:
    """Return the plan for *file* and its pipeline, judged; what a reader should know is said on stderr."""
    known_keys = named("--known-key", known_key, "the key of a step")
    plan = measured_plan(selecting.plan((file,)), environ=os.environ)
    generated = generate_one(plan, known_keys=known_keys)
    for notice in (*plan.notices, *generated.notices):
        say(f"note: {notice}")
    return plan, generated
