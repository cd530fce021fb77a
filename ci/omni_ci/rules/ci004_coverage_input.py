from __future__ import annotations

from collections.abc import Iterator

from omni_ci.repository.patterns import matches
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule

_SCRIPT = "run_cov_split.sh"
_SETTINGS = ("pyproject.toml", ".coveragerc", "setup.cfg", "tox.ini")


class CoverageInputsAreWatched(Rule):
    """A step that measures coverage watches what changes its measuring.

    These are the script that it calls and the file with coverage's settings. An edit of one of them changes every
    report, and must not wait for a change of the model. Add the path to the step, or once for all steps to
    `coverage.inputs` of the policy.
    """

    code = "CI004"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if not (job.measures_coverage and job.watch.is_declared):
                continue
            inputs = context.configuration(job).policy.coverage.inputs
            for path in _inputs(job, context):
                if not (job.watch.covers(path) or matches(path, inputs)):
                    yield job.found(
                        path, f"measures coverage and does not watch {path}, which changes what it measures"
                    )


def _inputs(job: Job, context: Context) -> Iterator[str]:
    called = (word for run in job.runs for word in run.words if word.endswith(_SCRIPT))
    yield from dict.fromkeys(path for word in called if (path := word.removeprefix("./")) in context.names)
    settings = (path for path in _SETTINGS if "coverage" in (context.read(path) or ""))
    yield from settings
