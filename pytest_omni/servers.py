"""The servers of this session: started, watched until ready, and stopped whatever happens."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from omni_hardware.processes import Ending, listeners, log_tail, stop
from omni_hardware.redaction import secret_values
from pytest_omni.lifelines import ParentWatch, TerminationHandler
from pytest_omni.ports import reserved_port
from pytest_omni.server import (
    HOST,
    OmniServer,
    OmniServerParams,
    PortStolenError,
    ServerError,
    Sight,
    environment,
    exit_words,
    failure,
    shown_command,
    shown_text,
    with_log,
)

Command = Callable[[int], list[str]]
Progress = Callable[[Sight], None]

_PORT_TRIES = 3
_TAIL_LINES = 40
_HEALTH_TIMEOUT_S = 5.0
_LOOK_EVERY_S = (0.05, 0.25)  # at first, and after some seconds
_ORPHAN_GRACE_S = 3.0
_LATE = "no whole answer in time"


@dataclass(slots=True)
class _Process:
    """One started server process and what was seen of it so far."""

    popen: subprocess.Popen[bytes]
    params: OmniServerParams
    port: int
    log_path: Path
    command: list[str]
    env: Mapping[str, str]
    began: float = field(default_factory=time.monotonic)
    listening: bool = False
    ready: bool = False

    def tail(self) -> str:
        return log_tail(self.log_path, _TAIL_LINES, secrets=secret_values(self.env))


class Servers:
    """All servers of one pytest process; *notes* takes what a person should read at the end of the session."""

    def __init__(self, notes: list[str], *, is_worker: bool) -> None:
        self._notes = notes
        self._live: list[_Process] = []
        self._termination = TerminationHandler()
        orphaned = [ParentWatch(lambda: self.stop_all(grace_s=_ORPHAN_GRACE_S))] if is_worker else []
        self._lifelines: tuple[TerminationHandler | ParentWatch, ...] = (self._termination, *orphaned)

    @property
    def terminated(self) -> bool:
        """Whether SIGTERM ended this session."""
        return self._termination.ending

    @contextmanager
    def served(
        self, params: OmniServerParams, command: Command, *, folder: Path, ports: Path, progress: Progress
    ) -> Iterator[OmniServer]:
        """Yield a ready server and stop it afterwards; its log is in *folder*, the port lock in *ports*.

        Raises ServerError when the process ends early or is not ready within params.init_timeout.
        """
        with ExitStack() as stack:
            process = self._first_ready(stack, params, command, folder=folder, ports=ports, progress=progress)
            yield OmniServer(params.model, process.port, process.popen.pid, process.log_path, params)

    def stop_all(self, *, grace_s: float | None = None) -> None:
        """Stop every server that still lives: the end of the session, whichever way it came."""
        for process in tuple(self._live):
            self._stop(process, grace_s=grace_s)

    def _first_ready(
        self,
        stack: ExitStack,
        params: OmniServerParams,
        command: Command,
        *,
        folder: Path,
        ports: Path,
        progress: Progress,
    ) -> _Process:
        for attempt in range(1, _PORT_TRIES + 1):
            with ExitStack() as trial:
                port = trial.enter_context(reserved_port(ports, params.port))
                process = trial.enter_context(self._started(params, command(port), port, folder=folder))
                try:
                    _await_ready(process, progress)
                except PortStolenError:
                    if params.port is not None or attempt == _PORT_TRIES:
                        raise
                    continue
                stack.push(trial.pop_all())
                return process
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _started(
        self, params: OmniServerParams, command: list[str], port: int, *, folder: Path
    ) -> Iterator[_Process]:
        env = environment(os.environ, params)
        log_path = folder / f"server-{port}.log"
        if not self._live:
            for lifeline in self._lifelines:
                lifeline.install()
        try:
            process = _Process(_spawn(command, env, log_path), params, port, log_path, command, env)
            self._live.append(process)
            try:
                yield process
            finally:
                self._stop(process)
        finally:
            if not self._live:
                for lifeline in reversed(self._lifelines):
                    lifeline.restore()

    def _stop(self, process: _Process, *, grace_s: float | None = None) -> None:
        grace = process.params.stop_timeout if grace_s is None else grace_s
        ending = stop(process.popen, grace_s=grace)
        if process in self._live:  # else another thread was faster, and has said what there is to say
            self._live.remove(process)
            if note := _note(process, ending, grace):
                self._notes.append(note)


def _spawn(command: list[str], env: dict[str, str], log_path: Path) -> subprocess.Popen[bytes]:
    # A file, since a full pipe that nobody reads stops the server. Its own session: Ctrl-C reaches pytest, which
    # stops the server in order, and the group holds what the server leaves behind.
    with log_path.open("ab") as log:
        try:
            return subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL character in a word
            reason = error.strerror if isinstance(error, OSError) else error
            shown = shown_command(command, env)
            raise ServerError(
                f"cannot run {shown_command(command[:1], env)!r}: {reason}; the command was {shown}"
            ) from error


def _await_ready(process: _Process, progress: Progress) -> None:
    while not (sight := _look(process)).ready:
        if error := failure(sight, params=process.params, port=process.port):
            tail = process.tail()
            raise with_log(
                error, command=process.command, env=process.env, log_path=process.log_path, tail=tail
            )
        progress(sight)
        time.sleep(_LOOK_EVERY_S[sight.seconds > 3])
    process.ready = True
    progress(sight)


def _look(process: _Process) -> Sight:
    exit_code = process.popen.poll()
    answers = _answers(process.port)
    seconds = time.monotonic() - process.began
    late, elsewhere = seconds >= process.params.init_timeout, tuple[str, ...]()
    if (
        answers or late
    ) and not process.listening:  # a walk over the process table: only when it says something
        places = listeners(process.popen.pid)
        process.listening = answers and process.port in {port for _, port in places}
        elsewhere = tuple(sorted(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip, port in places))
    if exit_code is not None or not (answers and process.listening):
        return Sight(
            seconds=seconds,
            exit_code=exit_code,
            listening=process.listening,
            foreign=answers and not process.listening,
            elsewhere=elsewhere,
        )
    left = max(0.1, process.params.init_timeout - seconds)
    status, detail = _health(process.port, process.params.health_path, min(left, _HEALTH_TIMEOUT_S))
    return Sight(seconds=time.monotonic() - process.began, listening=True, health=status, detail=detail)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0):
            return True
    except OSError:
        return False


def _health(port: int, path: str, timeout: float) -> tuple[int | None, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    cut = threading.Event()
    try:
        connection.connect()
        with _cut_after(timeout, connection.sock, cut):
            connection.request("GET", path)
            status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return None, f"GET {path}: {_LATE if cut.is_set() else type(error).__name__}"
    finally:
        connection.close()
    return (None, f"GET {path}: {_LATE}") if cut.is_set() else (status, f"GET {path}: {status}")


@contextmanager
def _cut_after(seconds: float, sock: socket.socket, cut: threading.Event) -> Iterator[None]:
    """End whatever waits for *sock* after *seconds*, and set *cut* then.

    The timeout of a socket starts anew with every byte, so a server that drips its answer would never meet it.
    """
    sock.settimeout(None)

    def end() -> None:
        cut.set()
        with suppress(OSError):  # closed meanwhile
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _note(process: _Process, ending: Ending, grace_s: float) -> str | None:
    what = f"server for {process.params.model!r} (pid {process.popen.pid}, log {process.log_path})"
    if ending is Ending.KILL:
        note = f"{what} had to be killed {grace_s:g} s after SIGTERM: what it had not written is lost, coverage too"
        return shown_text(note, process.env)
    if ending is Ending.GONE and process.ready:
        how = exit_words(process.popen.returncode)
        return shown_text(f"{what} ended by itself during the tests, with {how}", process.env)
    return None
