"""The errors a person can read, and the one function that suggests a name.

OmniError                  exit 2, the base
├── InputError             exit 2  what was typed or written is wrong
├── CheckError             exit 3  a check found something
└── InfrastructureError    exit 4  a port, a device, a network or an agent failed us
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import ClassVar

# The last two ranges turn the direction of what follows: a line would read differently than it is.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LISTED_AT_MOST = 12


class OmniError(Exception):
    """A failure whose message is complete: what, where, what to do. Never shown with a traceback."""

    exit_code: ClassVar[int] = 2


class InputError(OmniError):
    """What a user typed or wrote is wrong."""

    exit_code = 2


class CheckError(OmniError):
    """A check ran and found something."""

    exit_code = 3


class InfrastructureError(OmniError):
    """Something outside the user's input failed: a port, a device, an agent, a network."""

    exit_code = 4


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most like *name*, or None when nothing is close; case is ignored."""
    by_lower = {candidate.lower(): candidate for candidate in valid}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return " (did you mean 'H100'?)", else the known names, ready to append to a message."""
    # a set has another order in every process
    names = sorted(valid) if isinstance(valid, set | frozenset) else list(dict.fromkeys(valid))
    if suggestion := nearest(name, names):
        return f" (did you mean {suggestion!r}?)"
    if not names:
        return ""
    shown = ", ".join(names[:_LISTED_AT_MOST])
    return f" (known: {shown}{', …' if len(names) > _LISTED_AT_MOST else ''})"


def strip_controls(text: str) -> str:
    """Return *text* without control and direction characters other than tab and newline, safe on a terminal."""
    return _CONTROLS.sub("", text)
