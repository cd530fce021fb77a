"""The words that make a step something else than a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GATES = ("wait", "waiter", "block", "input", "manual")
PLAIN_KINDS = (*GATES, "trigger")
WAITS = ("wait", "waiter")
DIVIDING = (*WAITS, "block", "manual")  # an `input` only asks, and those around it go on
BARE_WORDS = (*WAITS, "block", "input")


def plain_kind(data: Any) -> str | None:
    """Return the word that makes this a wait, block, input or trigger step, as written or rendered; else None."""
    keys = data if isinstance(data, Mapping) else ()
    return data if isinstance(data, str) else next((kind for kind in PLAIN_KINDS if kind in keys), None)
