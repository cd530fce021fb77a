"""The hooks of sharding, in an armed session: pytest-shard keeps its options, the choice is ours.

What divides and measures is imported where it is asked for: most sessions do neither.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_omni.options import settings_of
from pytest_omni.sharding.asking import asked_of, lines_of, notice

_PREFIX = "omni: "
_SENT = "omni_shard_lines"
_THEIRS = "pytest_shard.pytest_shard"


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Only collect for a plan, and in this process."""
    if settings_of(config).shard_plan:
        config.option.collectonly = True


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse numbers that cannot be, and take the choice over from pytest-shard."""
    manager = config.pluginmanager
    for _, plugin in manager.list_name_plugin():
        if getattr(plugin, "__name__", None) == _THEIRS:
            manager.unregister(plugin)
    if told := notice(config):
        lines_of(config).append(told)
    if asked_of(config).durations:
        from pytest_omni.sharding import measuring

        measuring.start(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the node ids as they are before pytest-xdist adds its groups."""
    if config.getoption("loadgroup", default=False):
        from pytest_omni.sharding.affinity import remember_nodeid

        for item in items:
            remember_nodeid(item)


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_omni_divide(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep this shard's part of what -m and all others left, and group it for xdist's workers."""
    if asked_of(config).divides and items:
        from pytest_omni.sharding import dividing

        dividing.divide(config, items)
    if config.getoption("loadgroup", default=False):
        from pytest_omni.sharding import loadgroup

        loadgroup.write_groups(config, items)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run what shares a server, where groups are asked for."""
    if config.getoption("dist") != "loadgroup":
        return None
    from pytest_omni.sharding import loadgroup

    return loadgroup.scheduler(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep pytest from listing the tests again, below the plan."""
    if asked_of(session.config).plan_only:
        session.items = []


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say which part runs here."""
    return [_PREFIX + line for line in lines_of(config)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's lines and measurements; elsewhere write the measurements down."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_SENT] = lines_of(session.config)
    if asked_of(session.config).durations:
        from pytest_omni.sharding import measuring

        measuring.finish(session.config, output)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001 pluggy matches names
    """Take over what a worker sent; the lines are the same in each."""
    output, known = getattr(node, "workeroutput", {}), lines_of(node.config)
    known += [line for line in output.get(_SENT, ()) if line not in known]
    if asked_of(node.config).durations:
        from pytest_omni.sharding import measuring

        measuring.receive(node.config, output)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the workers divided, and where the measurements are."""
    told = lines_of(config) if config.pluginmanager.has_plugin("dsession") else []
    if asked_of(config).durations:
        from pytest_omni.sharding import measuring

        told = [*told, *measuring.notes_of(config)]
    for line in told:
        terminalreporter.write_line(_PREFIX + line)
