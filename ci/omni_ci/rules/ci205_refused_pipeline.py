from __future__ import annotations

import re
from collections.abc import Iterator

from omni_ci.checks.findings import Level
from omni_ci.output.judging import findings_of, uploads_of
from omni_ci.rendering.steps import render
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.yaml.model import PipelineFile
from omni_hardware.errors import OmniError

_PLACE = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+)(?::\d+)?: ")
# CI203; and of what is too large for one upload, whether it can be divided.
_SAID_ELSEWHERE = ("S10", "S12")


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
        yield _refused(pipeline, error)
        return
    try:
        _, found = uploads_of(rendered, configuration, known_keys=context.known_keys)
    except OmniError as error:
        yield _refused(pipeline, error)
        found = findings_of(rendered, configuration, known_keys=context.known_keys)
    for one in found:
        if one.level is Level.ERROR and one.code not in _SAID_ELSEWHERE:
            yield _at(pipeline, _line(f"{one.where}: "), f"{one.code} {one.message}")


def _refused(pipeline: PipelineFile, error: OmniError) -> Found:
    said = str(error)
    return _at(pipeline, _line(said) if said.startswith(f"{pipeline.name}:") else 1, _bare(said))


def _line(said: str) -> int:
    """Return the line of the place that *said* begins with, 1 without one."""
    place = _PLACE.match(said)
    return int(place["line"]) if place else 1


def _at(pipeline: PipelineFile, line: int, message: str) -> Found:
    return Found(file=pipeline.name, line=line, subject=pipeline.name, key=_key(message), message=message)


def _bare(message: str) -> str:
    """Return *message* without the place at its start, which the finding has."""
    return _PLACE.sub("", message, count=1)


def _key(message: str) -> str:
    """Return *message* without anything that an edit elsewhere in the file would change."""
    return re.sub(r":\d+(?::\d+)?", "", message)
