"""The hooks and fixtures that exist in an armed session only."""

from __future__ import annotations

from typing import Any

import pytest

from omni_hardware.vocabulary import Vocabulary
from pytest_omni.arming import arming_of
from pytest_omni.fixtures import omni_server
from pytest_omni.session import notes_of, receive_notes, send_notes, stop_servers

__all__ = ["omni_server"]


def register_markers(config: pytest.Config, vocabulary: Vocabulary) -> None:
    """Declare every marker that the vocabulary knows, so that strict markers accept it."""
    for line in vocabulary.marker_lines():
        config.addinivalue_line("markers", line)


def pytest_report_header(config: pytest.Config) -> str:
    """Say which words count here."""
    return arming_of(config).header()


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
        terminalreporter.section("omni servers", yellow=True)
        for note in dict.fromkeys(notes):
            terminalreporter.write_line(note)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what a broken teardown left running."""
    stop_servers(config)
