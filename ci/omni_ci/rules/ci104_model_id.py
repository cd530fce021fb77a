from __future__ import annotations

import re
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_hardware.errors import did_you_mean

_LEGAL = re.compile(r"[a-z0-9_]+")
_FOLDER = re.compile(r"(?:.*/)?models/([^/.]+)(?:/|\.py$)")


class ModelIdsAreModels(Rule):
    """A coverage split's `--model-id` is a model of this repository.

    It names the reports and is pasted into a glob, so it holds a-z, 0-9 and _ only. It is a folder or module under
    `models/`, or stands in `coverage.model_ids` of the policy; anything else files the report under a name that
    nobody looks for.
    """

    code = "CI104"

    def check(self, context: Context) -> Iterator[Found]:
        models = sorted({found[1] for path in context.names if (found := _FOLDER.match(path))})
        for job in context.jobs:
            listed = context.configuration(job).policy.coverage.model_ids
            for name in dict.fromkeys(_model_ids(job)):
                if not _LEGAL.fullmatch(name):
                    yield job.found(name, f"--model-id {name!r}: only a-z, 0-9 and _")
                elif name not in listed and (listed or models) and name not in models:
                    yield job.found(
                        name, f"--model-id {name!r} is no model here{did_you_mean(name, listed or models)}"
                    )


def _model_ids(job: Job) -> Iterator[str]:
    for run in job.runs:
        words = iter(run.words if run.measures_coverage else ())
        for word in words:
            name, is_joined, value = word.partition("=")
            if name == "--model-id" and "$" not in (found := value if is_joined else next(words, "")):
                yield found
