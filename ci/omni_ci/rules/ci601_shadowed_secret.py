from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.yaml.document import Where


class SecretsAreNotShadowed(Rule):
    """No environment of a build, file or step has the name of a pod's secret.

    The job's environment wins over the pod's: the variable then holds what the build says, often nothing, and the
    first download ends with 401. Take the variable out, or give the pod's secret a name of its own.
    """

    code = "CI601"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            secrets = set(_secrets(job))
            own, file = job.step.env or {}, job.pipeline.env or {}
            for name in sorted(secrets & own.keys()):
                yield job.found(name, f"env {name} takes the place of the pod's secret of that name")
            for name in sorted(secrets & file.keys() - own.keys()):
                where = Where(job.pipeline.name)
                yield job.found(
                    name,
                    f"the file's env {name} takes the place of the pod's secret of that name",
                    where=where,
                )


def _secrets(job: Job) -> Iterator[str]:
    for container in job.containers:
        entries = container.get("env")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and _is_secret(entry):
                yield str(entry.get("name"))


def _is_secret(entry: Mapping[str, Any]) -> bool:
    source = entry.get("valueFrom")
    return isinstance(source, Mapping) and "secretKeyRef" in source
