"""What one armed session keeps: its servers, and notes for the terminal summary, workers' notes included."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_omni.lifelines import SIGTERM_EXIT
from pytest_omni.servers import Servers

_SENT = "omni_notes"
_NOTES = pytest.StashKey[list[str]]()
_SERVERS = pytest.StashKey[Servers]()


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def notes_of(config: pytest.Config) -> list[str]:
    """Return the session's notes, to read and to append to."""
    return config.stash.setdefault(_NOTES, [])


def servers_of(config: pytest.Config) -> Servers:
    """Return the session's servers."""
    if _SERVERS not in config.stash:
        config.stash[_SERVERS] = Servers(notes_of(config), is_worker=is_worker(config))
    return config.stash[_SERVERS]


def stop_servers(config: pytest.Config) -> None:
    """Stop what still runs, and set the exit code that SIGTERM asks for; without a server, nothing happens."""
    if servers := config.stash.get(_SERVERS, None):
        servers.stop_all()
        session: pytest.Session | None = config.pluginmanager.getplugin("session")
        if servers.terminated and session is not None:
            session.exitstatus = SIGTERM_EXIT


def send_notes(config: pytest.Config) -> None:
    """Put a worker's notes where xdist carries them to the controller."""
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output[_SENT] = list(notes_of(config))


def receive_notes(config: pytest.Config, workeroutput: dict[str, Any]) -> None:
    """Take a worker's notes into the controller's."""
    notes_of(config).extend(workeroutput.get(_SENT, ()))
