"""How far a starting server has come, and when waiting on is pointless. No process here.

One monotonic deadline: init_timeout seconds from the start to the first 200. A server that writes nothing to its log
for stall_timeout seconds meanwhile is given up earlier.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from omni_hardware.errors import InfrastructureError
from pytest_omni.servers.params import HOST, OmniServerParams, shown_command, shown_text

Progress = Callable[["Sight"], None]

_HEALTH_TIMEOUT_S = 5.0
_LOOK_EVERY_S = (0.01, 0.25)  # at first, and after some seconds; a look takes 0.3 ms


class ServerError(InfrastructureError):
    """A server did not become ready; the message has the phases it reached and the end of its log."""


class PortStolenError(ServerError):
    """Somebody else listens on the port that we picked: another port may do."""


class ServerEndedError(ServerError, ConnectionError):
    """A server that was ready has ended while tests use it."""


class Phase(StrEnum):
    """How far a start has come; a phase that was reached once may be left again."""

    SPAWN = "started"
    LISTENING = "listening"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one look at a starting server shows; times in seconds.

    ended: which process of the server ended, from 0, when there are several. health: the last HTTP status; None
    before any answer. foreign: somebody else has our port. elsewhere: where our own process listens, if that
    is not where it was told to: on *port*. quiet: how long no process of the server has written to its log.
    """

    seconds: float
    exit_code: int | None = None
    ended: int | None = None
    listening: bool = False
    foreign: bool = False
    elsewhere: tuple[str, ...] = ()
    health: int | None = None
    detail: str = ""
    quiet: float = 0.0
    port: int | None = None

    @property
    def ready(self) -> bool:
        """Whether our own process listens and says that it is healthy; a port alone may be a stranger's."""
        return self.phase is Phase.HEALTHY

    @property
    def phase(self) -> Phase:
        """Return the phase; a server of which a process has ended is in none that counts as ready."""
        if not self.listening:
            return Phase.SPAWN
        return Phase.HEALTHY if self.health == 200 and self.exit_code is None else Phase.LISTENING

    @property
    def words(self) -> str:
        """How far the start has come, for people."""
        if self.listening:
            return f"listening, {self.detail or 'no answer to the health check yet'}"
        if self.foreign:
            return "another process has the port"
        if self.elsewhere:
            return f"listening on {', '.join(self.elsewhere)}, not on {HOST}:{self.port} as it was told"
        return "not listening yet"


class Probe(Protocol):
    """What can be asked of the processes of one server."""

    def exit(self) -> tuple[int, int | None] | None:
        """Return the exit code of one that ended and which it was, None while all run."""

    def answers(self) -> bool:
        """Return whether anybody accepts connections on the server's port."""

    def was_refused(self) -> bool:
        """Return whether a server that has ended says that it found its port taken."""

    def listeners(self) -> set[tuple[str, int]]:
        """Return address and port wherever a process of the server listens."""

    def health(self, timeout: float) -> tuple[int | None, str]:
        """Return the status of the health path and how to tell it."""

    def log_bytes(self) -> int:
        """Return how much the server has logged."""


class Watch:
    """Looks at one starting server, and remembers what it must not ask twice."""

    def __init__(
        self,
        probe: Probe,
        params: OmniServerParams,
        port: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._probe, self._params, self._port = probe, params, port
        self._clock, self._sleep = clock, sleep
        self._began = self._wrote = clock()
        self._logged = 0
        self._listening = False

    def until_ready(self, progress: Progress) -> Sight:
        """Return the sight of the ready server; raises ServerError when waiting on is pointless."""
        while not (sight := self.look()).ready:
            if error := failure(sight, params=self._params, port=self._port):
                raise error
            progress(sight)
            self._sleep(_LOOK_EVERY_S[sight.seconds > 3])
        progress(sight)
        return sight

    def look(self) -> Sight:
        """Return what there is to see now."""
        ended = self._probe.exit()
        answers = self._probe.answers()
        seconds, quiet = self._times()
        elsewhere: tuple[str, ...] = ()
        late = seconds >= self._params.init_timeout
        if (
            answers or late
        ) and not self._listening:  # a walk over the process table: only when it says something
            places = self._probe.listeners()
            self._listening = answers and self._port in {port for _, port in places}
            elsewhere = tuple(
                sorted(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for ip, port in places)
            )
        if ended is not None or not (answers and self._listening):
            code, which = ended or (None, None)
            # an outgoing connection, or a server that has gone again, takes a port too: then only the log tells
            refused = ended is not None and not self._listening and self._probe.was_refused()
            return Sight(
                seconds=seconds,
                exit_code=code,
                ended=which,
                listening=self._listening,
                foreign=refused or (answers and not self._listening),
                elsewhere=elsewhere,
                quiet=quiet,
                port=self._port,
            )
        left = max(0.1, self._params.init_timeout - seconds)
        status, detail = self._probe.health(min(left, _HEALTH_TIMEOUT_S))
        seconds, quiet = self._times()
        return Sight(seconds=seconds, listening=True, health=status, detail=detail, quiet=quiet)

    def _times(self) -> tuple[float, float]:
        now = self._clock()
        if (logged := self._probe.log_bytes()) != self._logged:
            self._logged, self._wrote = logged, now
        return now - self._began, now - self._wrote


def failure(sight: Sight, *, params: OmniServerParams, port: int) -> ServerError | None:
    """Return why waiting on is pointless, or None while there is hope."""
    what = f"server for {params.model!r} on port {port}"
    if sight.exit_code is not None:
        return _ended(f"{params.model!r} on port {port}", sight, sight.exit_code)
    if sight.seconds >= params.init_timeout:
        return ServerError(
            f"{what} is not ready after init_timeout={params.init_timeout:g} s. "
            f"Reached: started, then {sight.words}. GET {params.health_path} must answer 200"
        )
    if params.stall_timeout is not None and sight.quiet >= params.stall_timeout:
        return ServerError(
            f"{what} wrote nothing to its log for stall_timeout={params.stall_timeout:g} s, "
            f"{sight.seconds:.0f} s after its start. Reached: started, then {sight.words}"
        )
    return None


def exit_words(code: int) -> str:
    """Return how a process ended, from its return code: "code 3", or the signal that ended it.

    >>> exit_words(-11)
    'signal SIGSEGV'
    """
    if code >= 0:
        return f"code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # real-time signals have numbers only
        return f"signal {-code}"


def with_log(
    error: ServerError,
    logs: Sequence[tuple[Sequence[str], Path, str]],
    *,
    env: Mapping[str, str],
    weights: str,
) -> ServerError:
    """Return the same kind of error with the weights, each process's command, log and the log's end in its message."""
    parts = [shown_text(str(error), env), shown_text(f"weights: {weights}", env)]
    for command, log_path, tail in logs:
        parts.append(
            f"command: {shown_command(command, env)}\nlog: {log_path}, its end:\n{tail or '(empty)'}"
        )
    return type(error)("\n".join(parts))


def _ended(what: str, sight: Sight, code: int) -> ServerError:
    # the cause comes first: pytest's short summary has one line for it, cut at its end
    which = "server" if sight.ended is None else f"process {sight.ended + 1} of the server"
    how = f"{exit_words(code)} {sight.seconds:.1f} s after its start ({sight.words})"
    told = f"{which} exited with {how}: {what}"
    if code == 0:
        return ServerError(f"{told}. It must stay in the foreground: a server is what its command runs")
    return (PortStolenError if sight.foreign else ServerError)(told)
