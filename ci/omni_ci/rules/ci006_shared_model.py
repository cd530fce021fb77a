from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule

# omni/models/bagel of omni/models/bagel/transformer.py
_MODEL = re.compile(r"(?:.*/)?models/(?P<id>[^/.]+)(?=/|$)")


class SharedModelCodeIsWatched(Rule):
    """Model code that several models share is watched by the steps of each of them.

    A step belongs to the models whose folders (`*/models/<id>/`) it watches. Where their code imports a file of
    another model, or of a folder beside theirs, a change there can break each of them, and the steps of all must
    run. Add the file to the step.
    """

    code = "CI006"

    def check(self, context: Context) -> Iterator[Found]:
        models = sorted({model for job in context.every_job for model in _models(job)})
        imported = {model: _imported(model, context) for model in models}
        users = defaultdict(set)
        for model, files in imported.items():
            for path in files:
                users[path].add(model.rpartition("/")[2])
        for job in context.jobs:
            for model in _models(job):
                for path, importer in imported[model].items():
                    if not job.watch.covers(path):
                        others = sorted(users[path] - {model.rpartition("/")[2]})
                        also = f"; so does the code of {', '.join(others)}" if others else ""
                        yield job.found(path, f"does not watch {path}, which {importer} imports{also}")


def _models(job: Job) -> list[str]:
    """Return the folders of the models that the step watches by name."""
    found = (_MODEL.match(path) for path in job.watch.paths())
    return list(dict.fromkeys(one[0] for one in found if one))


def _imported(model: str, context: Context) -> dict[str, str]:
    """Return the model code outside of the model's own folder that it imports, each with the file that does."""
    own = [path for path in context.index.under(f"{model}/") if path.endswith(".py")]
    closure = context.imports.closure(own, through=lambda path: _MODEL.match(path) is not None)
    outside = {path: by for path, by in closure.items() if by and not path.startswith(f"{model}/")}
    return {path: by for path, by in outside.items() if _MODEL.match(path) and path in context.names}
