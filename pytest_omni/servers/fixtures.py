"""The server fixtures of an armed session, and the hooks that leave no server behind."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pytest_omni.options import settings_of
from pytest_omni.servers.params import OmniServer, OmniServerParams, environment, shown_text
from pytest_omni.servers.serving import require_alive, serve
from pytest_omni.session import (
    guard,
    is_worker,
    notes_of,
    receive_notes,
    remember_worker,
    send_notes,
    stop_servers,
)


@pytest.fixture(scope="module")
def omni_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OmniServer]:
    """A running server, from an indirect parameter ``OmniServerParams``; stopped after the module's last test."""
    yield from serve(request, tmp_path_factory)


@pytest.fixture
def omni_server_function(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OmniServer]:
    """A running server for one test, also beside the module's own."""
    yield from serve(request, tmp_path_factory)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Call a test by the model that it asks for: test_answers[tiny/z-image], not test_answers[omni_server0]."""
    return shown_text(val.model, environment(os.environ, val)) if isinstance(val, OmniServerParams) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Let a signal to the controller reach the workers' servers."""
    guard(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Keep who the workers are."""
    remember_worker(node.config, node.gateway)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker end in order when its controller says so, and a session that owes a report."""
    if is_worker(session.config) or settings_of(session.config).report:
        guard(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Fail a test at once whose server has ended in a test before."""
    yield
    require_alive(item)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's notes, once pytest has torn everything down."""
    send_notes(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001 pluggy matches names
    """Take over a worker's notes."""
    receive_notes(node.config, getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell what a green result would hide."""
    if notes := notes_of(config):
        terminalreporter.section("omni notes", yellow=True)
        for note in dict.fromkeys(notes):
            terminalreporter.write_line(note)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what a broken teardown left running."""
    stop_servers(config)
