"""Pipeline files made ready to print or to upload: what `generate` and `upload` share."""

from __future__ import annotations

import os

from omni_ci.commands.arguments import known_keys_of
from omni_ci.commands.selecting import Selecting
from omni_ci.output.generating import Generated, generated
from omni_ci.planning import Plan
from omni_ci.showing.report import say
from omni_ci.starting.coverage_when import measured_plan


def made_ready(
    *files: str, known_key: tuple[str, ...] | None, selecting: Selecting
) -> tuple[Plan, Generated]:
    """Return the plan for *files* and their pipeline, judged; what a reader should know is said on stderr."""
    known_keys = known_keys_of(known_key)
    plan = measured_plan(selecting.plan(files), environ=os.environ)
    made = generated(plan, known_keys=known_keys)
    for notice in (*plan.notices, *made.notices):
        say(f"note: {notice}")
    return plan, made
