"""Tests in a process of their own: ``@pytest.mark.fresh_process`` and the hooks behind it.

    fresh_process                   a new pytest runs exactly this test, fixtures of every scope included
    fresh_process(method="fork")    a fork of this process does; refused once an accelerator's runtime runs here
    fresh_process(timeout=60)       seconds until the process is ended and the test fails

The test's reports are the process's own: skip, xfail, traceback, output and durations are what they would be here.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_omni.cards import runtime_witness
from pytest_omni.marks import FRESH_PROCESS

if TYPE_CHECKING:
    from pytest_omni.isolation.fresh_run import FreshRun

MARK = FRESH_PROCESS
TIMEOUT_S = 600.0
_RUN: pytest.StashKey[FreshRun] = pytest.StashKey()
_LAST = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(method='spawn', timeout={TIMEOUT_S:g}): "
        "run the test in a process of its own; timeout in seconds",
    )


def pytest_plugin_registered(plugin: Any, manager: pytest.PytestPluginManager) -> None:
    """Notice whether a conftest has started an accelerator's runtime."""
    config = manager.getplugin("pytestconfig")
    if (
        config is not None
    ):  # plugins that came before us are told of now: none of them is known to have done it
        file = getattr(plugin, "__file__", None) or ""
        runtime_witness.look(config, file if file.endswith("conftest.py") else "")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Notice whether the import of a test file has."""
    report = yield
    runtime_witness.look(collector.config, collector.nodeid)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Notice whether the test before has, and put the fresh process in the place of a marked test's own code."""
    runtime_witness.look(item.config, item.config.stash.get(_LAST, ""))
    item.config.stash[_LAST] = item.nodeid
    if (mark := item.get_closest_marker(MARK)) is not None and _RUN not in item.stash:
        from pytest_omni.isolation import fresh_run  # most sessions have no such test

        if (run := fresh_run.take_over(item, mark)) is not None:
            item.stash[_RUN] = run


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the process's own report instead of ours."""
    report = yield
    run = item.stash.get(_RUN, None)
    return report if run is None else run.own_report(call, report)
