from __future__ import annotations

import re
from collections.abc import Iterator

from omni_ci.checks.findings import Level
from omni_ci.checks.validation import validate
from omni_ci.rendering.steps import render
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.yaml.model import PipelineFile
from omni_hardware.errors import OmniError

_PLACE = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+)(?::\d+)?: ")
_SAID_ELSEWHERE = ("S10",)  # CI203


class PipelinesAreAccepted(Rule):
    """`omni-ci generate` accepts the whole pipeline.

    A step that cannot be rendered, or that Buildkite or Kubernetes would refuse, is found by the first build that
    selects it. The message is what `generate` would say then; the code in it (S1 to S14, POLICY) is its own.
    """

    code = "CI205"

    def check(self, context: Context) -> Iterator[Found]:
        jobs = {job.id: job for job in context.jobs}
        for pipeline in context.pipelines:
            if pipeline.name not in context.judged:
                continue
            mine = [job for job in jobs.values() if job.pipeline is pipeline]
            for job in mine:
                if job.problem is not None:
                    said = _bare(job.problem).removeprefix(f"step {job.title}: ")
                    yield job.found(_key(said), f"cannot be rendered: {said}")
            for problem in context.refused.get(pipeline.name, ()):
                yield _at(pipeline, problem.where.line, problem.what)
            yield from _judged(pipeline, mine, context)


def _judged(pipeline: PipelineFile, jobs: list[Job], context: Context) -> Iterator[Found]:
    """Render and validate what can be rendered."""
    broken = {job.step.ident for job in jobs if job.problem is not None}
    configuration = context.configurations[pipeline.name]
    runs = {leaf.ident for _, leaf in pipeline.leaves()} - broken
    try:
        rendered = render(pipeline, configuration.equipment(pipeline.name), runs=runs)
    except OmniError as error:
        yield _at(pipeline, 1, _bare(str(error)))
        return
    found = validate(
        rendered.document,
        origins=rendered.origins,
        presets=rendered.presets,
        places=configuration.presets.places,
        known_keys=context.known_keys,
        policy=configuration.policy,
    )
    for one in found:
        if one.level is Level.ERROR and one.code not in _SAID_ELSEWHERE:
            place = _PLACE.match(f"{one.where}: ")
            yield _at(pipeline, int(place["line"]) if place else 1, f"{one.code} {one.message}")


def _at(pipeline: PipelineFile, line: int, message: str) -> Found:
    return Found(file=pipeline.name, line=line, subject=pipeline.name, key=_key(message), message=message)


def _bare(message: str) -> str:
    """Return *message* without the place at its start, which the finding has."""
    return _PLACE.sub("", message, count=1)


def _key(message: str) -> str:
    """Return *message* without anything that an edit elsewhere in the file would change."""
    return re.sub(r":\d+(?::\d+)?", "", message)
