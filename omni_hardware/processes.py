"""Process trees that we started: who belongs to one, which ports it holds, how it ends, what its log said.

Only owned processes are ever signalled: descendants of the root, and members of the group that the root leads.
A zombie counts as dead: a container's PID 1 that does not reap must not make us wait.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from omni_hardware.errors import InfrastructureError, strip_controls
from omni_hardware.redaction import redact, redact_words

__all__ = [
    "Ending",
    "descendants",
    "is_alive",
    "listeners",
    "log_tail",
    "redact",
    "stop",
]

_POLL_S = 0.02
_AFTER_ROOT_S = 5.0  # what is left of the group had its own TERM; it gets this long
_AFTER_KILL_S = 5.0  # the kernel ends a killed process at once, unless a driver call holds it
_TAIL_BYTES_A_LINE = 2000
_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)


class Ending(StrEnum):
    """How a process tree ended."""

    GONE = "gone"  # nothing was alive when we came
    TERM = "term"  # everything left after SIGTERM
    KILL = "kill"  # something needed SIGKILL: its coverage and buffers are lost


def is_alive(process: psutil.Process) -> bool:
    """Return whether *process* still runs; zombies and reused pids do not."""
    try:
        return bool(process.is_running()) and process.status() not in {
            psutil.STATUS_ZOMBIE,
            psutil.STATUS_DEAD,
        }
    except _GONE:
        return False


def descendants(pid: int) -> list[psutil.Process]:
    """Return the living processes below *pid*, without *pid* itself, and what is left of the group it leads.

    A grandchild whose parent died hangs below PID 1, but stays in the group.
    """
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(*_GONE):
        found |= {child.pid: child for child in psutil.Process(pid).children(recursive=True)}
    found |= {member.pid: member for member in _group_members(pid)}
    found.pop(pid, None)
    found.pop(os.getpid(), None)
    return [process for process in found.values() if is_alive(process)]


def listeners(pid: int) -> set[tuple[str, int]]:
    """Return address and port of every TCP socket on which *pid* or one of its descendants listens."""
    found: set[tuple[str, int]] = set()
    for process in (*_root(pid), *descendants(pid)):
        with contextlib.suppress(*_GONE, psutil.AccessDenied):
            found |= {
                (c.laddr.ip, c.laddr.port) for c in _connections(process) if c.status == psutil.CONN_LISTEN
            }
    return found


def stop(process: subprocess.Popen[bytes] | int, *, grace_s: float = 10.0) -> Ending:
    """End a process and everything it started; return what it took.

    TERM to the root first, so that it can end its own children in order; after *grace_s* seconds (or the root's
    end) TERM to what is left of the group; then KILL. Raises InfrastructureError when something survives that.
    """
    pid = process if isinstance(process, int) else process.pid
    root = [] if isinstance(process, subprocess.Popen) and process.poll() is not None else _root(pid)
    members = {member.pid: member for member in (*root, *descendants(pid))}
    if not members:
        return Ending.GONE
    _signal(root, signal.SIGTERM)
    _wait(lambda: not any(map(is_alive, root)), grace_s if root else 0.0)
    _update(members, pid)
    _signal([member for member in members.values() if member not in root], signal.SIGTERM)
    _wait(lambda: not any(map(is_alive, members.values())), min(grace_s, _AFTER_ROOT_S))
    killed = _kill_all(members, pid)
    if isinstance(process, subprocess.Popen):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_AFTER_KILL_S)  # reaps, so that no zombie of ours stays
    return Ending.KILL if killed else Ending.TERM


def log_tail(path: Path, lines: int = 60, *, secrets: Iterable[str] = ()) -> str:
    """Return the last *lines* lines of a log, secrets redacted and control characters stripped; "" without a file."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - lines * _TAIL_BYTES_A_LINE))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    # progress bars rewrite one line with \r: only its last state is worth reading
    shown = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
    while shown and not shown[-1].strip():
        shown.pop()
    return strip_controls(redact("\n".join(shown[-lines:]), secrets=secrets))


def _root(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(*_GONE):
        root = psutil.Process(pid)
        return [root] if is_alive(root) else []
    return []


def _group_members(pgid: int) -> list[psutil.Process]:
    """Return the processes of the group *pgid*, unless that group is our own."""
    if not hasattr(os, "getpgid") or os.getpgid(0) == pgid:
        return []
    members: list[psutil.Process] = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, *_GONE):
            if os.getpgid(pid) == pgid:
                members.append(psutil.Process(pid))
    return members


def _connections(process: psutil.Process) -> list[Any]:
    # psutil 5 has no net_connections, psutil 7 no connections
    query = getattr(process, "net_connections", None) or process.connections
    return list(query(kind="tcp"))


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> bool:
    sent = False
    for process in processes:
        with contextlib.suppress(*_GONE):
            if is_alive(process):
                process.send_signal(number)
                sent = True
    return sent


def _wait(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _update(members: dict[int, psutil.Process], pid: int) -> None:
    for late in descendants(pid):
        members.setdefault(late.pid, late)


def _kill_all(members: dict[int, psutil.Process], pid: int) -> bool:
    """SIGKILL whatever lives, children born meanwhile included; return whether there was any."""
    killed = False
    deadline = time.monotonic() + _AFTER_KILL_S
    while True:
        _update(members, pid)
        if not _signal(members.values(), signal.SIGKILL):
            return killed
        killed = True
        if time.monotonic() > deadline:
            raise InfrastructureError(f"still alive after SIGKILL: {_named(members.values())}")
        time.sleep(_POLL_S)


def _named(processes: Iterable[psutil.Process]) -> str:
    rows: list[str] = []
    for process in processes:
        with contextlib.suppress(*_GONE, psutil.AccessDenied):
            if is_alive(process):
                command = " ".join(redact_words(process.cmdline()))
                rows.append(f"pid {process.pid} ({command or process.name()})")
    return ", ".join(rows)
