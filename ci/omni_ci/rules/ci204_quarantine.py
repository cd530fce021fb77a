from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule

_ISSUE = re.compile(r"https?://\S+/(?:issues|pull)/\d+|(?:[\w.-]+/[\w.-]+)?#\d+")
_UNTIL = re.compile(r"\buntil (\d{4}-\d\d-\d\d)\b")
_FAILED_TESTS = ("1", "*")


class QuarantineEnds(Rule):
    """A test step that does not block says which issue it waits for, and until when.

    `soft_fail: true` alone is a red step that nobody looks at any more. Write a comment above the step or in it:
    `# quarantined: https://github.com/owner/repo/issues/12 until 2027-01-31`. After that day the step is found
    again.
    """

    code = "CI204"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            if (
                job.runs
                and _forgives(job.step.soft_fail)
                and (lacks := _lacks(context.comments(job), context.today))
            ):
                yield job.found("", f"does not block (soft_fail), and {lacks}")


def _forgives(soft_fail: Any) -> bool:
    """Return whether a failed test leaves the build green."""
    if not isinstance(soft_fail, list):
        return soft_fail is True
    statuses = (rule.get("exit_status") for rule in soft_fail if isinstance(rule, dict))
    return any(str(status) in _FAILED_TESTS for status in statuses)


def _lacks(comments: str, today: date) -> str | None:
    """Return what the comments of a quarantined step do not say, None where they say all."""
    until = _UNTIL.search(comments)
    if not _ISSUE.search(comments):
        return "no comment names the issue it waits for, as in `# quarantined: https://…/issues/12 until 2027-01-31`"
    if until is None:
        return "no comment says until when, as in `until 2027-01-31`"
    try:
        end = date.fromisoformat(until[1])
    except ValueError:
        return f"{until[1]} is no day"
    return f"its quarantine ended on {until[1]}" if end < today else None
