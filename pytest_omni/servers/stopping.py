"""How a server ends, and what is to be told about it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from omni_hardware.errors import InfrastructureError
from pytest_omni.servers.child import Child
from pytest_omni.servers.child_coverage import Recorded, Verdict, data_files, judge, measuring
from pytest_omni.servers.params import OmniServerParams, shown_text
from pytest_omni.servers.starting import Sight, exit_words

if TYPE_CHECKING:
    import psutil


class Stopped(StrEnum):
    """How a server ended; the words of report.json."""

    TERM = "term"  # in order
    KILL = "kill"  # it did not follow SIGTERM
    CRASH = "crash"  # it had ended before anybody stopped it


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """What stopping one server took. *survivors* names what outlived SIGKILL, "" without any; *grace_s* was given.

    *outlived*: the server followed SIGTERM, what it had started did not.
    *alive_s*: seconds from the start of its first process to the end of its last.
    """

    how: Stopped
    coverage: Verdict
    grace_s: float
    alive_s: float
    code: int | None = None
    survivors: str = ""
    outlived: bool = False


class Stoppable(Protocol):
    """What a running server shows to who stops it."""

    params: OmniServerParams
    env: Mapping[str, str]
    children: list[Child]
    ready: Sight | None
    began: float

    def exit(self) -> tuple[int, int | None] | None:
        """Return the exit code of a process that ended by itself."""

    def owned(self) -> list[psutil.Process]:
        """Return what lives of it."""

    def seen(self) -> frozenset[int]:
        """Return every pid that was its own."""


def stop_children(server: Stoppable, *, grace_s: float) -> Stopping:
    """End every process of *server*: TERM to all its roots, after *grace_s* to the rest, then KILL. Never raises."""
    from omni_hardware.processes import Ending, is_alive, stop_trees

    ended, survivors = server.exit(), ""
    roots = [child.root for child in server.children if is_alive(child.root)]
    # dead already, though its launcher has not come to say so
    dead = [child for child in server.children if child.root not in roots]
    try:
        ending = stop_trees(roots, server.owned, grace_s=grace_s)
    except InfrastructureError as error:
        ending, survivors = Ending.KILL, f"{_what(server)}: {error}"
    alive_s = time.monotonic() - server.began
    for child in server.children:
        child.let_go()
    code = ended[0] if ended else next((child.exit_code() for child in dead), None)
    killed = ending is Ending.KILL
    how = Stopped.CRASH if code is not None else Stopped.KILL if killed else Stopped.TERM
    return Stopping(
        how=how,
        coverage=_coverage(server, killed=killed or (code is not None and code < 0)),
        grace_s=grace_s,
        alive_s=alive_s,
        code=code,
        survivors=survivors and shown_text(survivors, server.env),
        outlived=killed and all(child.exit_code() != -signal.SIGKILL for child in server.children),
    )


def notes(server: Stoppable, stopping: Stopping) -> list[str]:
    """Return what a person should read at the end of the session, secrets redacted."""
    what, told = _what(server), list[str]()
    if stopping.outlived:
        told.append(f"{what} left processes behind that did not follow SIGTERM and had to be killed")
    elif stopping.how is Stopped.KILL:
        told.append(
            f"{what} had to be killed {stopping.grace_s:g} s after SIGTERM: "
            "what it had not written is lost, coverage too"
        )
    if stopping.how is Stopped.CRASH and server.ready:
        told.append(f"{what} ended by itself during the tests, with {exit_words(stopping.code or 0)}")
    coverage = stopping.coverage
    if coverage.measuring and coverage.state is Recorded.OFF:
        told.append(f"the server for {server.params.model!r} was not measured: {coverage.because}")
    elif coverage.measuring and coverage.state is Recorded.LOST and stopping.how is not Stopped.KILL:
        told.append(f"the coverage of {what} is lost: {coverage.because}")
    return [shown_text(note, server.env) for note in told]


def _what(server: Stoppable) -> str:
    pids = ", ".join(str(child.pid) for child in server.children)
    return f"server for {server.params.model!r} (pid {pids}, {_logs(server.children)})"


def _logs(children: Iterable[Child]) -> str:
    return f"log {', '.join(str(child.order.log_path) for child in children)}"


def _coverage(server: Stoppable, *, killed: bool) -> Verdict:
    found = measuring()
    return judge(server.env, killed=killed, pids=server.seen(), measuring=found, files=data_files(found))
