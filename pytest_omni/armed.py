"""The hooks and fixtures that exist in an armed session only."""

from __future__ import annotations

from importlib import import_module

import pytest

from omni_hardware.vocabulary import Vocabulary
from pytest_omni.arming import arming_of

# Modules with hooks and fixtures, each registered as a plugin of an armed session; one line a module.
FEATURES: tuple[str, ...] = (
    "pytest_omni.selection.items",  # first: what it withholds, the others must not see
    "pytest_omni.reporting.bookkeeping",
    "pytest_omni.preflight",
    "pytest_omni.selection.variants",
    "pytest_omni.cards.devices",
    "pytest_omni.diagnosis.doctor",
    "pytest_omni.isolation.fresh_process",  # after devices: what it runs sees what was leased
    "pytest_omni.servers.fixtures",
    "pytest_omni.servers.engines",
    "pytest_omni.sharding.hooks",  # last: divides what the others leave
)
# "module:function": called with the early config before any conftest is imported; one line a function.
AT_LOAD: tuple[str, ...] = (
    "pytest_omni.reporting.bookkeeping:old_report_removed_at_load",
    "pytest_omni.cards.worker_visibility:visibility_at_load",  # before the next: it knows a worker by the snapshot that it still has
    "pytest_omni.machine:snapshot_at_load",
)
_PREFIX = "omni-"


def arm(config: pytest.Config) -> None:
    """Register this module and every feature, once, and run what has to come before the conftests."""
    if config.pluginmanager.has_plugin(f"{_PREFIX}armed"):
        return
    config.pluginmanager.register(import_module(__name__), f"{_PREFIX}armed")
    for name in FEATURES:
        config.pluginmanager.register(import_module(name), _PREFIX + name.rpartition(".")[2])
    for place in AT_LOAD:
        module, _, function = place.partition(":")
        getattr(import_module(module), function)(config)


def register_markers(config: pytest.Config, vocabulary: Vocabulary) -> None:
    """Declare every marker that the vocabulary knows, so that strict markers accept it."""
    for line in vocabulary.marker_lines():
        config.addinivalue_line("markers", line)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    register_markers(config, arming_of(config).vocabulary)
