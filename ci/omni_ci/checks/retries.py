"""What a step's automatic retry repeats, as Buildkite matches a job that ended with a failed test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How pytest ends where a test failed; no signal, and no reason for one.
_FAILED = "1"
_ANY = "*"
_ORDINARY = frozenset([_ANY, "none"])


def repeats_failed_tests(rule: Mapping[str, Any]) -> bool:
    """Return whether an entry of `retry.automatic` matches an ordinary exit status 1.

    Every condition that is not written matches anything, also where another one is written.
    """
    status = rule.get("exit_status", _ANY)
    statuses = [str(one) for one in (status if isinstance(status, list) else [status])]
    return (
        (_ANY in statuses or _FAILED in statuses)
        and str(rule.get("signal_reason", _ANY)).casefold() in _ORDINARY
        and str(rule.get("signal", _ANY)) == _ANY
    )


def is_of_every_status(rule: Mapping[str, Any]) -> bool:
    """Return whether an entry of `retry.automatic` names no exit status."""
    status = rule.get("exit_status", _ANY)
    return _ANY in (status if isinstance(status, list) else [status])
