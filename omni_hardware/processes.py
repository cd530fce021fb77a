"""Process trees that we started: who belongs to one, which ports it holds, how it ends, what its log said.

Only owned processes are ever signalled: descendants of the root, members of the group that the root leads, and
what carries our tag in its environment. A zombie counts as dead: a container's PID 1 that does not reap must not
make us wait.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
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
    "listening",
    "log_tail",
    "named",
    "redact",
    "stop",
    "stop_trees",
    "tagged",
]

_POLL_S = (0.002, 0.02)  # at first, growing: what ends at once is not waited for
_AFTER_ROOT_S = 5.0  # what is left of the group had its own TERM; it gets this long
_AFTER_KILL_S = 5.0  # the kernel ends a killed process at once, unless a driver call holds it
_TAIL_BYTES_A_LINE = 2000
_HAS_PROC = Path("/proc/self/environ").exists()
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
    return listening((*_root(pid), *descendants(pid)))


def listening(processes: Iterable[psutil.Process]) -> set[tuple[str, int]]:
    """Return address and port of every TCP socket on which one of *processes* listens."""
    found: set[tuple[str, int]] = set()
    for process in processes:
        with contextlib.suppress(*_GONE, psutil.AccessDenied):
            found |= {
                (c.laddr.ip, c.laddr.port) for c in _connections(process) if c.status == psutil.CONN_LISTEN
            }
    return found


def tagged(name: str, value: str) -> list[psutil.Process]:
    """Return the living processes that were started with *name* in their environment, its value starting so.

    What a server starts inherits its environment, also into a session of its own and below another parent.
    """
    entry = f"{name}={value}"
    found = [pid for pid in psutil.pids() if pid != os.getpid() and _carries(pid, entry)]
    return [process for pid in found for process in _root(pid)]


def stop(process: subprocess.Popen[bytes] | int, *, grace_s: float = 10.0) -> Ending:
    """End a process and everything it started; return what it took.

    TERM to the root first, so that it can end its own children in order; after *grace_s* seconds (or the root's
    end) TERM to what is left of the group; then KILL. Raises InfrastructureError when something survives that.
    """
    pid = process if isinstance(process, int) else process.pid
    root = [] if isinstance(process, subprocess.Popen) and process.poll() is not None else _root(pid)
    ending = stop_trees(root, lambda: descendants(pid), grace_s=grace_s)
    if isinstance(process, subprocess.Popen) and ending is not Ending.GONE:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_AFTER_KILL_S)  # reaps, so that no zombie of ours stays
    return ending


def stop_trees(
    roots: Sequence[psutil.Process], others: Callable[[], Iterable[psutil.Process]], *, grace_s: float
) -> Ending:
    """End several roots and what *others* finds, which is asked again until it finds nothing; see `stop`."""
    members = _together(roots, others())
    if not any(map(is_alive, members)):
        return Ending.GONE
    _signal(roots, signal.SIGTERM)
    _wait(lambda: not any(map(is_alive, roots)), grace_s)
    members = _together(members, others())
    _signal([member for member in members if member not in roots], signal.SIGTERM)
    _wait(lambda: not any(map(is_alive, members)), min(grace_s, _AFTER_ROOT_S))
    return Ending.KILL if _kill_all(members, others) else Ending.TERM


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


def named(processes: Iterable[psutil.Process]) -> str:
    """Return "pid N (command line)" for each that lives, secrets redacted."""
    rows: list[str] = []
    for process in processes:
        with contextlib.suppress(*_GONE, psutil.AccessDenied):
            if is_alive(process):
                command = " ".join(redact_words(process.cmdline()))
                rows.append(f"pid {process.pid} ({command or process.name()})")
    return ", ".join(rows)


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


def _carries(pid: int, entry: str) -> bool:
    proc = Path("/proc", str(pid), "environ")
    if not _HAS_PROC:
        with contextlib.suppress(*_GONE, psutil.AccessDenied, OSError):
            name, _, value = entry.partition("=")
            return str(psutil.Process(pid).environ().get(name, "")).startswith(value)
        return False
    with contextlib.suppress(OSError):
        return os.fsencode(f"\0{entry}") in b"\0" + proc.read_bytes()
    return False


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> bool:
    """Send *number* to what lives, and return whether there was any."""
    lives = False
    for process in processes:
        # denied: it took another user's rights; who may not be signalled is alive all the same
        with contextlib.suppress(*_GONE, psutil.AccessDenied):
            if is_alive(process):
                lives = True
                process.send_signal(number)
    return lives


def _wait(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pause, longest = _POLL_S
    while not done() and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(2 * pause, longest)


def _together(known: Iterable[psutil.Process], found: Iterable[psutil.Process]) -> list[psutil.Process]:
    return list({process.pid: process for process in (*found, *known)}.values())


def _kill_all(members: Sequence[psutil.Process], others: Callable[[], Iterable[psutil.Process]]) -> bool:
    """SIGKILL whatever lives, children born meanwhile included; return whether there was any."""
    killed = False
    deadline = time.monotonic() + _AFTER_KILL_S
    while True:
        members = _together(members, others())
        if not _signal(members, signal.SIGKILL):
            return killed
        killed = True
        if time.monotonic() > deadline:
            raise InfrastructureError(f"still alive after SIGKILL: {named(members)}")
        time.sleep(_POLL_S[1])
