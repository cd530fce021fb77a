from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omni_ci.checks.retries import is_of_every_status, repeats_failed_tests
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule


class FailedTestsAreNotRetried(Rule):
    """A failed test is not retried.

    A retry on status 1, on every status or of everything turns a flaky test green and hides a real failure one run
    in two. Retry what machines do (-1, 128, `signal_reason`), and give a flaky test a step of its own that does not
    block, with its issue.
    """

    code = "CI203"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            retry = job.rendered.get("retry")
            automatic = retry.get("automatic") if isinstance(retry, dict) else None
            for what in _retried(automatic) if job.runs else ():
                yield _found(job, what)


def _retried(automatic: Any) -> Iterator[str]:
    """Yield how *automatic* repeats failed tests."""
    if automatic in (True, "true"):
        yield "`automatic: true` repeats everything that fails"
    for rule in automatic if isinstance(automatic, list) else [automatic]:
        if not isinstance(rule, dict):
            continue
        if repeats_failed_tests(rule):
            which = "every exit status" if is_of_every_status(rule) else "exit status 1"
            yield f"a retry of {which} repeats failed tests"


def _found(job: Job, what: str) -> Found:
    """Return the finding where the retry is written: in the step, or once in its preset."""
    if job.step.retry is not None or job.preset is None:
        return job.found(what, what)
    where, name = job.preset.where, job.preset.name
    subject = f"{where.file}#{name}"
    return Found(
        file=where.file, line=where.line, subject=subject, key=what, message=f"preset {name!r}: {what}"
    )
