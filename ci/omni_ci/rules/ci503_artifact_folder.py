from __future__ import annotations

import posixpath
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.writing import is_declared, written

_CHECKOUT = "BUILDKITE_BUILD_CHECKOUT_PATH"


class ArtifactsAreWhereTheyAreLookedFor(Rule):
    """An artifact is written where `artifact_paths` looks for it: in the checkout.

    After a `cd` in the commands or in the preset's setup, a file of a relative name is somewhere else, and an upload
    that matches nothing is no error. Write it to `$$BUILDKITE_BUILD_CHECKOUT_PATH/…`, or name the folder in
    `artifact_paths`. A runner that calls `omni-ci exec` copies such files back.
    """

    code = "CI503"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            declared = job.rendered.get("artifact_paths")
            if not declared or _copies(job, context):
                continue
            for one in dict.fromkeys(written(job)):
                is_named = is_declared(one.name, job.artifacts) and not one.name.startswith(("/", "$"))
                if one.folder and is_named and not is_declared(one.path, job.artifacts):
                    yield job.found(
                        one.name,
                        f"writes {one.name} in {one.folder}, and artifact_paths looks for it in the checkout",
                    )


def _copies(job: Job, context: Context) -> bool:
    """Return whether something brings the files to the checkout."""
    if any(_CHECKOUT in word for one in job.script.commands for word in one.words):
        return True
    runner = posixpath.normpath(job.runner) if job.runner else ""
    return "omni-ci exec" in (context.read(runner) or "")
