"""What one armed session keeps: its servers, and notes for the terminal summary, workers' notes included."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_omni.servers.lifelines import TerminationHandler

if TYPE_CHECKING:
    from pytest_omni.servers.running import Running, Servers
    from pytest_omni.servers.stopping import Stopping

_SENT = "omni_notes"
_NOTES = pytest.StashKey[list[str]]()
_SERVERS = pytest.StashKey["Servers"]()
_GUARD = pytest.StashKey[TerminationHandler]()
_WORKERS = pytest.StashKey[list[Any]]()


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def notes_of(config: pytest.Config) -> list[str]:
    """Return the session's notes, to read and to append to."""
    return config.stash.setdefault(_NOTES, [])


def servers_of(config: pytest.Config) -> Servers:
    """Return the session's servers."""
    if _SERVERS not in config.stash:
        from pytest_omni.servers.running import Servers

        def ended(running: Running, stopping: Stopping) -> None:
            _enter(config, running, stopping)

        config.stash[_SERVERS] = Servers(ended, is_worker=is_worker(config))
    return config.stash[_SERVERS]


def started_servers(config: pytest.Config) -> Servers | None:
    """Return the session's servers, None where none was asked for yet."""
    return config.stash.get(_SERVERS, None)


def guard(config: pytest.Config) -> None:
    """Let SIGTERM end this session in order, servers or not: xdist's controller and its workers end together."""
    if _GUARD not in config.stash:
        alone = not is_worker(config) and config.getoption("dist", default="no") == "no"
        doing = "ending this session in order" if alone else "stopping the servers of this session"
        config.stash[_GUARD] = TerminationHandler(lambda: _end_workers(config), doing=doing)
    config.stash[_GUARD].install()


def remember_worker(config: pytest.Config, gateway: Any) -> None:
    """Keep a worker's pid: execnet tells it nothing for 10 s when its controller is asked to end."""
    # Private in execnet. Without it, and on another machine, the worker is ended after those 10 s.
    if popen := getattr(getattr(gateway, "_io", None), "popen", None):
        config.stash.setdefault(_WORKERS, []).append(popen)


def stop_servers(config: pytest.Config) -> None:
    """Stop what still runs, and set the exit code that a signal asks for; without a server, nothing happens."""
    handlers, problem = list[TerminationHandler](), ""
    if servers := config.stash.get(_SERVERS, None):
        problem = _survivors(servers)
        handlers.append(servers.termination)
    if own := config.stash.get(_GUARD, None):
        own.restore()
        handlers.append(own)
    session: pytest.Session | None = config.pluginmanager.getplugin("session")
    code = next((handler.exit_code for handler in handlers if handler.exit_code is not None), None)
    if problem:
        sys.stderr.write(f"ERROR: {problem}\n")
        code = code or (None if session is None else session.exitstatus or pytest.ExitCode.TESTS_FAILED)
    if code is not None and session is not None:
        session.exitstatus = code


def send_notes(config: pytest.Config) -> None:
    """Put a worker's notes where xdist carries them to the controller."""
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output[_SENT] = list(notes_of(config))


def receive_notes(config: pytest.Config, workeroutput: dict[str, Any]) -> None:
    """Take a worker's notes into the controller's."""
    notes_of(config).extend(workeroutput.get(_SENT, ()))


def _survivors(servers: Servers) -> str:
    from pytest_omni.servers.starting import ServerError

    try:
        servers.stop_all()
    except ServerError as error:  # the summary is written already
        return str(error)
    return ""


def _end_workers(config: pytest.Config) -> None:
    for popen in config.stash.get(_WORKERS, ()):
        with contextlib.suppress(OSError):
            popen.terminate()


def _enter(config: pytest.Config, running: Running, stopping: Stopping) -> None:
    from pytest_omni.reporting.ledger import ServerRecord, ledger_of
    from pytest_omni.servers.params import shown_text
    from pytest_omni.servers.stopping import notes

    notes_of(config).extend(notes(running, stopping))
    record = ServerRecord(
        running.params.model,
        ready_s=None if running.ready is None else round(running.ready.seconds, 3),
        alive_s=round(stopping.alive_s, 3),
        stopped=stopping.how.value,
        coverage=stopping.coverage.state.value,
        weights=running.plan.weights,
        because=shown_text(running.plan.because, running.env),
    )
    ledger_of(config).servers.append(record)
