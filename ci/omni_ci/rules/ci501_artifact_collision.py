from __future__ import annotations

import re
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job, differs_by_step
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.writing import is_declared, written

_GLOB = re.compile(r"[*?\[{]")


class ArtifactsHaveOneWriter(Rule):
    """Two steps do not upload an artifact of the same path.

    A download by that path fails (several artifacts were found), and a download by pattern writes both into one file.
    Put the step's key into the name.
    """

    code = "CI501"

    def check(self, context: Context) -> Iterator[Found]:
        first: dict[tuple[str, str], Job] = {}
        for job in context.jobs:
            for path in dict.fromkeys(uploaded(job)):
                other = first.setdefault((job.pipeline.name, path), job)
                if other is not job and not differs_by_step(path):
                    yield job.found(
                        path,
                        f"uploads {path}, and so does step {other.title} at line {other.step.where.line}",
                    )


def uploaded(job: Job) -> Iterator[str]:
    """Yield the paths that the step uploads, as far as they are known: declared, or written and declared by a pattern."""
    patterns = job.artifacts
    yield from (pattern for pattern in patterns if not _GLOB.search(pattern))
    yield from (one.path for one in written(job) if is_declared(one.path, patterns))
