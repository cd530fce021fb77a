from __future__ import annotations

from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule

_STEP_ID = "BUILDKITE_STEP_ID"


class ContainersHaveAnAgent(Rule):
    """A step whose commands call `buildkite-agent` in a docker container finds one there.

    The docker plugin mounts the agent only with `mount-buildkite-agent: true`; a coverage split also names its reports
    by the step's id, which `propagate-environment: true` hands over. Without them the tests pass and their reports
    are lost. A Kubernetes pod has both.
    """

    code = "CI102"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if not _calls_agent(job):
                continue
            for config in job.docker:
                if config.get("mount-buildkite-agent") not in {True, "true"}:
                    yield job.found(
                        "agent",
                        "calls buildkite-agent in a docker container without `mount-buildkite-agent: true`",
                    )
                passes = config.get("propagate-environment") in {True, "true"} or _STEP_ID in _environment(
                    config
                )
                if job.measures_coverage and not passes:
                    yield job.found(
                        _STEP_ID,
                        f"measures coverage in a docker container without {_STEP_ID}; write `propagate-environment: true`",
                    )


def _calls_agent(job: Job) -> bool:
    return job.measures_coverage or any("buildkite-agent" in one.words for one in job.script.commands)


def _environment(config: object) -> set[str]:
    listed = config.get("environment") if isinstance(config, dict) else None
    return {str(entry).partition("=")[0] for entry in listed} if isinstance(listed, list) else set()
