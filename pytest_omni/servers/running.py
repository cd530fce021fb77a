"""The servers of this session: started, watched until ready, and stopped whatever happens."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_omni.servers.child import Child, Order, launch, new_tag
from pytest_omni.servers.lifelines import ParentWatch, TerminationHandler
from pytest_omni.servers.params import OmniServer, OmniServerParams, environment, shown_text
from pytest_omni.servers.starting import (
    PortStolenError,
    Progress,
    ServerError,
    Sight,
    Watch,
    exit_words,
    with_log,
)

if TYPE_CHECKING:
    import psutil

    from pytest_omni.servers.stopping import Stopped, Stopping

Command = Callable[[int], Sequence[Sequence[str]]]

_PORT_TRIES = 3
_ORPHAN_GRACE_S = 3.0
_LOOK_EVERY_S = 0.02
_IN_USE = "address already in use"  # EADDRINUSE, lower-case
# imported while the first server loads; when it is up, its test would wait for them
_NEEDED_LATER = ("http.client", "omni_hardware.processes", "pytest_omni.servers.stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One server to start. command: from a port to the command line of each process. base: the environment below
    params.env. folder: for the logs. ports: for the locks on ports. weights: what it is told to load, in the words of
    report.json, and because: why.
    """

    params: OmniServerParams
    command: Command
    base: Mapping[str, str]
    folder: Path
    ports: Path
    weights: str
    because: str


class Running:
    """One server, all its processes together; also what a `Watch` asks."""

    def __init__(self, plan: Plan, port: int) -> None:
        self.plan, self.params, self.port = plan, plan.params, port
        self.env: Mapping[str, str] = environment(plan.base, plan.params)
        self.children: list[Child] = []
        self.ready: Sight | None = None
        self.stopped: Stopped | None = None
        self.began = time.monotonic()
        self._ending = threading.Lock()
        self._mourned = False

    def exit(self) -> tuple[int, int | None] | None:
        """Return the exit code of a process that ended, and which it was if there are several."""
        for at, child in enumerate(self.children):
            if (code := child.exit_code()) is not None:
                return code, at if len(self.children) > 1 else None
        return None

    def answers(self) -> bool:
        """Return whether anybody listens on the port."""
        from pytest_omni.servers import health

        return health.answers(self.port)

    def was_refused(self) -> bool:
        """Return whether the end of a log says that an address is in use, as Python, Go and C++ servers put it."""
        return any(_IN_USE in child.tail().lower() for child in self.children)

    def listeners(self) -> set[tuple[str, int]]:
        """Return where the server's processes listen."""
        from omni_hardware.processes import listening

        return listening(self.owned())

    def health(self, timeout: float) -> tuple[int | None, str]:
        """Return what the health path answers."""
        from pytest_omni.servers import health

        return health.health(self.port, self.params.health_path, timeout=timeout)

    def log_bytes(self) -> int:
        """Return how much all its processes have logged."""
        return sum(child.log_bytes() for child in self.children)

    def owned(self) -> list[psutil.Process]:
        """Return what lives of all its processes."""
        return list({row.pid: row for child in self.children for row in child.owned()}.values())

    def seen(self) -> frozenset[int]:
        """Return every pid that was found to belong to it."""
        return frozenset(pid for child in self.children for pid in (child.pid, *child.seen))

    def explained(self, error: ServerError) -> ServerError:
        """Return *error* with the commands and the ends of the logs."""
        logs = [(child.order.command, child.order.log_path, child.tail()) for child in self.children]
        return with_log(error, logs, env=self.env, weights=self.weights)

    @property
    def weights(self) -> str:
        """What it was told to load and why, for people."""
        return f"{self.plan.weights} ({self.plan.because})"

    def obituary(self, code: int, which: int | None) -> str:
        """Return how it ended, the first time with commands and logs."""
        who = "server" if which is None else f"process {which + 1} of the server"
        said = f"{who} exited with {exit_words(code)} during the tests: {self.params.model!r} on port {self.port}"
        if self._mourned:
            logs = ", ".join(str(child.order.log_path) for child in self.children)
            return shown_text(f"{said}, log {logs}", self.env)
        self._mourned = True
        return str(self.explained(ServerError(said)))

    def stop(self, *, grace_s: float | None = None) -> Stopping | None:
        """End it; None when another thread was faster, and says what there is to say."""
        with self._ending:
            if self.stopped is not None:
                return None
            from pytest_omni.servers.stopping import stop_children

            grace = self.params.stop_timeout if grace_s is None else grace_s
            stopping = stop_children(self, grace_s=grace)
            self.stopped = stopping.how
            return stopping


class Servers:
    """All servers of one pytest process; *ended* hears of each one that was stopped."""

    def __init__(self, ended: Callable[[Running, Stopping], None], *, is_worker: bool) -> None:
        self._ended = ended
        self._live: list[Running] = []
        self._lock = threading.RLock()
        self.termination = TerminationHandler()
        orphaned = [ParentWatch(lambda: self.stop_all(grace_s=_ORPHAN_GRACE_S))] if is_worker else []
        self._lifelines: tuple[TerminationHandler | ParentWatch, ...] = (self.termination, *orphaned)

    @contextmanager
    def served(self, plan: Plan, progress: Progress) -> Iterator[tuple[OmniServer, Running]]:
        """Yield a ready server and stop it afterwards.

        Raises ServerError when a process ends early, or the server is not ready in time.
        """
        __tracebackhide__ = True  # what a hook raises is shown; our locals hold the whole environment
        with ExitStack() as stack:
            running = self._first_ready(stack, plan, progress)
            logs = tuple(child.order.log_path for child in running.children)
            pid = running.children[0].pid
            yield OmniServer(plan.params.model, running.port, pid, logs[0], plan.params, logs), running

    def end_of(self, server: object, *, wait_s: float = 0.0) -> str:
        """Return how *server* ended while it was in use, the first time with its log; "" while it lives.

        wait_s: a connection breaks a little earlier than the end of a process is known.
        """
        pid, deadline = getattr(server, "pid", None), time.monotonic() + wait_s
        running = next(
            (row for row in tuple(self._live) if row.children and row.children[0].pid == pid), None
        )
        while running is not None:
            if ended := running.exit():
                return running.obituary(*ended)
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_EVERY_S)
        return ""

    def stop_all(self, *, grace_s: float | None = None) -> None:
        """Stop every server that still lives: the end of the session, whichever way it came.

        Raises ServerError when something survives, after the last of them.
        """
        survivors: list[str] = []
        for running in tuple(self._live):
            try:
                self._stop(running, grace_s=grace_s)
            except ServerError as error:
                survivors.append(str(error))
            except pytest.exit.Exception:  # a signal came meanwhile: this is the end that it asks for
                continue
        if survivors:
            raise ServerError("\n".join(survivors))

    def pids(self) -> frozenset[int]:
        """Return the pids of everything that lives of all servers of this process."""
        return frozenset(row.pid for running in tuple(self._live) for row in running.owned())

    def _first_ready(self, stack: ExitStack, plan: Plan, progress: Progress) -> Running:
        from pytest_omni.servers.ports import reserved_port

        __tracebackhide__ = True
        wanted = plan.params.port
        # a server of this process would be waited for by itself
        wait_s = 0.0 if wanted in {row.port for row in self._live} else plan.params.init_timeout
        for attempt in range(1, _PORT_TRIES + 1):
            with ExitStack() as trial:
                port = trial.enter_context(reserved_port(plan.ports, wanted, wait_s=wait_s))
                running = trial.enter_context(self._started(plan, port))
                try:
                    running.ready = Watch(running, plan.params, port).until_ready(progress)
                except PortStolenError as error:
                    if wanted is not None or attempt == _PORT_TRIES:
                        raise running.explained(error) from None
                    continue
                except ServerError as error:
                    raise running.explained(error) from None
                stack.push(trial.pop_all())
                return running
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _started(self, plan: Plan, port: int) -> Iterator[Running]:
        running = Running(plan, port)
        __tracebackhide__ = True
        commands = plan.command(port)
        with self._watched(running):
            running.began = time.monotonic()  # the hook may have built a checkpoint before
            try:
                for at, command in enumerate(commands):
                    part = f"-{at + 1}" if len(commands) > 1 else ""
                    order = Order(command, running.env, plan.folder / f"server-{port}{part}.log")
                    running.children.append(launch(order, new_tag()))
                for name in _NEEDED_LATER:
                    import_module(name)
                yield running
            finally:
                self._stop(running)

    @contextmanager
    def _watched(self, running: Running) -> Iterator[None]:
        with self._lock:
            if not self._live:
                for lifeline in self._lifelines:
                    lifeline.install()
            self._live.append(running)
        try:
            yield
        finally:
            with self._lock:
                with contextlib.suppress(ValueError):
                    self._live.remove(running)
                if not self._live:
                    for lifeline in reversed(self._lifelines):
                        lifeline.restore()

    def _stop(self, running: Running, *, grace_s: float | None = None) -> None:
        with self.termination.held_back():
            if stopping := running.stop(grace_s=grace_s):
                self._ended(running, stopping)
                if stopping.survivors:
                    raise ServerError(stopping.survivors)
