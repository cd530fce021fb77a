from __future__ import annotations

import json
from collections.abc import Hashable, Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule

_HARDWARE = ("agents", "image", "plugins", "env")


class StepsDiffer(Rule):
    """No two steps of a file do the same on the same hardware.

    Equal commands, environment and hardware pay twice for one answer, and often hide that a label's own tests run
    nowhere. Take one of them out, or give it the tests its label promises.
    """

    code = "CI005"

    def check(self, context: Context) -> Iterator[Found]:
        first: dict[Hashable, Job] = {}
        for job in context.jobs:
            if not job.script.commands:
                continue
            same = first.setdefault(_work(job), job)
            if same is not job:
                yield job.found(
                    same.step.ident,
                    f"does what step {same.title} at line {same.step.where.line} does, on the same hardware: "
                    f"{_weight(job)} for nothing",
                )


def _work(job: Job) -> Hashable:
    """Return what the step does, where and when, however its commands are spaced and commented."""
    commands = tuple((one.words, one.assigns, one.before, one.inside) for one in job.script.commands)
    hardware = {name: job.rendered.get(name) for name in _HARDWARE}
    when = (job.step.if_, job.step.branches, job.group.if_ if job.group else None)
    return job.pipeline.name, commands, json.dumps((hardware, when), sort_keys=True)


def _weight(job: Job) -> str:
    jobs = f"{job.count} job{'s' if job.count > 1 else ''}"
    cards = f" on {job.cards} card{'s' if job.cards > 1 else ''} each" if job.cards else ""
    minutes = job.step.timeout_in_minutes
    return jobs + cards + (f", up to {minutes} minutes" if minutes else "")
