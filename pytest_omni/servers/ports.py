"""Ports that no other worker or session of ours takes between the choice and the server's own bind."""

from __future__ import annotations

import fcntl  # filelock, which leases use, takes 10 ms to import: a shard with one server pays for that too
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from omni_hardware.errors import InfrastructureError
from pytest_omni.servers.params import HOST

_TRIES = 128
_LOOK_EVERY_S = 0.05


@contextmanager
def reserved_port(folder: Path, wanted: int | None = None, *, wait_s: float = 0.0) -> Iterator[int]:
    """Yield a free port (*wanted*, if given) and hold its lock in *folder* until the end.

    The kernel may hand the same ephemeral port to two callers, once the first has closed its socket: the lock
    keeps them apart. For *wanted* it waits *wait_s* seconds: another worker's server may have it. Raises
    InfrastructureError when it is taken after them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder, wanted, wait_s) if wanted else _any(folder) as port:
        yield port


@contextmanager
def _any(folder: Path) -> Iterator[int]:
    for _ in range(_TRIES):
        with ExitStack() as stack:
            with _bound(None) as port:
                if not stack.enter_context(_held(folder, port)):
                    continue
            yield port
            return
    raise InfrastructureError(f"no free port on {HOST} in {_TRIES} tries; locks lie in {folder}")


@contextmanager
def _locked(folder: Path, wanted: int, wait_s: float) -> Iterator[int]:
    with _held(folder, wanted, wait_s) as is_ours:
        if not is_ours:
            waited = f", still after {wait_s:g} s" if wait_s else ""
            raise InfrastructureError(
                f"port {wanted} is reserved by another server of these tests{waited}; "
                "leave port=None to get a free one"
            )
        with _bound(wanted):
            pass
        yield wanted


@contextmanager
def _held(folder: Path, port: int, wait_s: float = 0.0) -> Iterator[bool]:
    """Hold the lock on *port* and yield True; False where somebody else still has it after *wait_s* seconds."""
    handle = os.open(folder / f"{port}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_s
    try:
        while not (is_ours := _taken(handle)) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        yield is_ours
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # not close() alone: a fork of this process may hold a copy
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_folder(basetemp: Path, *, is_worker: bool) -> Path:
    """Return the folder for port locks, shared by the workers of a session and the sessions of a user.

    pytest's temp root is .../pytest-of-USER/pytest-N, with a folder a worker below; --basetemp names N itself.
    """
    session = basetemp.parent if is_worker else basetemp
    shared = session.parent if session.parent.name.startswith("pytest-of-") else session
    return shared / "omni-ports"


@contextmanager
def _bound(wanted: int | None) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if wanted and os.name == "posix":
            # a port in TIME_WAIT is free for the server, which binds with the same option
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted or 0))
        except OSError as error:
            raise InfrastructureError(
                f"port {wanted or 'any'} on {HOST} cannot be bound: {error.strerror}; "
                "stop what listens there, or leave port=None to get a free one"
            ) from error
        yield int(probe.getsockname()[1])
