"""Which worker a new one replaces: pytest-xdist gives it a new number, the card stays that of the crashed one."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

import pytest

# In the controller's environment only while the replacement is being started.
REPLACES = "PYTEST_OMNI_REPLACES"
_FIRST_OF = pytest.StashKey[dict[str, str]]()


def fell(config: pytest.Config, worker: str) -> None:
    """Tell the worker that is started next that it stands in for *worker*."""
    os.environ[REPLACES] = _first_of(config).get(worker, worker)


def started(config: pytest.Config, worker: str) -> None:
    """Remember whose place *worker* has taken, for it may crash as well."""
    if first := os.environ.pop(REPLACES, None):
        _first_of(config)[worker] = first


def forget() -> None:
    """Leave nothing in the environment where no replacement came."""
    os.environ.pop(REPLACES, None)


def place_of(worker: str, environ: MutableMapping[str, str]) -> str:
    """Return the name of the worker in whose place this one is, its own mostly; its children shall not read it."""
    return environ.pop(REPLACES, worker)


def _first_of(config: pytest.Config) -> dict[str, str]:
    return config.stash.setdefault(_FIRST_OF, {})
