"""Hooks that judge an armed session before its tests: arguments, machine, run level."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from omni_hardware.errors import InputError
from pytest_omni import arguments, heading, machine, usage
from pytest_omni.arming import arming_of
from pytest_omni.options import settings_of
from pytest_omni.run_level import deeper_message, is_deeper, level_of
from pytest_omni.selection.mark_names import named
from pytest_omni.session import is_worker

_SENT = "omni_deeper"
_DEEPER = pytest.StashKey[str]()
_DOUBTS = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def run_level(pytestconfig: pytest.Config) -> str:
    """The run level of this session, a name such as "core_model"."""
    return level_of(pytestconfig).name


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse, before a worker starts, what can be known to be wrong by now."""
    if not is_worker(config):
        judge(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what was asked for, what is here, and how deep it goes."""
    return heading.header(config)


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, None, None]:
    """Lend the snapshot of the devices to the workers that pytest-xdist starts here."""
    if not arguments.has_workers(session.config):
        return (yield)
    with machine.lent(session.config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let the controller hear of what a worker refuses, such as the id of a test that there is not."""
    with usage.passed_on(session.config):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Hear how deep the worker's tests go; where it crashed, lend the snapshot to its replacement."""
    keep_deeper(node.config, getattr(node, "workeroutput", {}).get(_SENT))
    if error:
        machine.lend(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready() -> None:
    """Take the snapshot out of the environment again: the replacement has it."""
    machine.take_back()


@pytest.hookimpl(wrapper=True, specname="pytest_collection_modifyitems")
def pytest_omni_refusals(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Tell the controller of a worker's usage error, whoever raises it: pytest-xdist itself fails over it."""
    try:
        return (yield)
    except pytest.UsageError as error:
        usage.report(config, items, "\n".join(map(str, error.args)))
        return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Warn about selected tests that go deeper than the run level; in a strict session, refuse."""
    if message := deeper(config, items):
        if settings_of(config).strict:
            usage.report(config, items, message)
        else:
            keep_deeper(config, message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which tests went deeper than the run level, and what was asked for in vain."""
    for doubt in config.stash.get(_DOUBTS, ()):
        terminalreporter.ensure_newline()
        terminalreporter.write_line(f"omni: {doubt}", yellow=True)
    if message := config.stash.get(_DEEPER, None):
        terminalreporter.ensure_newline()
        terminalreporter.section("omni run level", yellow=True)
        terminalreporter.write_line(message)


def pytest_unconfigure() -> None:
    """Leave nothing in the environment."""
    machine.take_back()


def judge(config: pytest.Config) -> None:
    """Raise pytest.UsageError for a machine that cannot be told, or arguments that ask for nothing there is."""
    here = machine.machine_of(config)
    problems = arguments.mistakes(config, here.expression)
    problems += filter(None, (here.problem, _not_limit()))
    config.stash[_DOUBTS] = unsure = doubts(config, here)
    if settings_of(config).strict:
        problems += unsure
    if problems:
        raise pytest.UsageError("\n".join(problems))


def _not_limit() -> str | None:
    """Return what is wrong with the time that tests may wait for cards: each of them would only fail by itself."""
    if not os.environ.get(arguments.LEASE_TIMEOUT):
        return None
    from pytest_omni.cards.leases import limit_of

    try:
        limit_of(os.environ)
    except InputError as error:
        return str(error)
    return None


def doubts(config: pytest.Config, here: machine.Machine) -> list[str]:
    """Return what was hardly meant as it was said; a strict session refuses it."""
    positive = here.expression.positive if here.expression else frozenset()
    contradiction = machine.contradiction(
        settings_of(config), positive, here.asked, arming_of(config).vocabulary
    )
    return [*arguments.misspelt(os.environ), *filter(None, [contradiction])]


def deeper(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Return what to say about the items that go deeper than the run level, or None."""
    level, levels = level_of(config), arming_of(config).vocabulary.levels
    if level.name == levels[-1]:
        return None
    known: dict[frozenset[str], str | None] = {}
    found: list[tuple[str, str]] = []
    for group, names in named(items):
        if names not in known:
            known[names] = is_deeper(names, level.name, levels)
        if marked := known[names]:
            found += [(item.nodeid, marked) for item in group]
    return deeper_message(level, found) if found else None


def keep_deeper(config: pytest.Config, message: object) -> None:
    """Keep *message* for the summary, a worker's for the controller's; workers collect the same tests."""
    output: dict[str, object] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output[_SENT] = message
    elif message:
        config.stash[_DEEPER] = str(message)
