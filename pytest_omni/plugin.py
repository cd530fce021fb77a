"""The plugin's hooks: each says when, the modules beside this one say what."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_omni import arming, command_line, hook_names, hookspecs, usage


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Offer our hooks, armed or not: a conftest that implements one must load everywhere."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini keys, and the flags that carry our name."""
    command_line.declare_ini(parser)
    command_line.declare_flags(parser, common=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Decide whether this session is ours before any conftest runs."""
    with hook_names.explained(), arming.around_conftests(early_config, parser, args):
        yield
    hook_names.require_known(early_config)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Raise what is wrong with the project's table and the settings."""
    arming.configure(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Explain what pytest finds wrong with our hooks in a conftest.py below."""
    with usage.passed_on(session.config), hook_names.explained():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Offer no test where pytest will refuse one of our hooks."""
    hook_names.withhold(session)


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]) -> None:
    """Note which of our words strict markers refuse."""
    if isinstance(node, pytest.Collector) and call.excinfo:
        usage.remember_refusal(node, call.excinfo.value)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse our fixtures and markers where they cannot work; deselected tests do not count."""
    if message := usage.mistake(config, items):
        usage.report(config, items, message)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Explain a fixture of ours that was asked for by name while the test ran."""
    report = yield
    if message := usage.at_run_time(item, call.excinfo.value if call.excinfo else None):
        report.sections.append(("pytest-omni", message))
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001 pluggy matches names
    """Hear what an xdist worker found."""
    usage.receive(node.config, getattr(node, "workeroutput", {}))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a worker's usage error into this session's."""
    usage.conclude(session)
