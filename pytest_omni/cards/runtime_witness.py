"""Who started an accelerator's runtime in this process: the file whose import did it, or the test that did."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

# Without one of these nobody can have started a runtime from Python, and there is nothing to ask a driver.
LIBRARIES = ("torch", "cupy", "jax", "tensorflow", "numba", "paddle", "pycuda")
_UNSEEN = "a plugin, before the first file was collected"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The first moment at which a runtime was seen to run. what: in words; by: a file or a node id."""

    what: str
    by: str


_SIGHTING = pytest.StashKey[Sighting]()


def look(config: pytest.Config, by: str) -> Sighting | None:
    """Return the first sighting; a runtime that nobody has seen before was started while *by* was at work."""
    seen = config.stash.get(_SIGHTING, None)
    modules = sys.modules
    if seen is None and any([name in modules for name in LIBRARIES]) and (what := running()):  # noqa: C419 asked for each test
        seen = config.stash[_SIGHTING] = Sighting(what, by or _UNSEEN)
    return seen


def running() -> str:
    """Return which runtime runs in this process, in words; "" while none does. Starts nothing itself."""
    from pytest_omni.cards.runtime_state import RUNTIMES, started  # where nobody imported torch, nobody asks

    return next((what for platform in RUNTIMES if (what := started(platform))), "")
