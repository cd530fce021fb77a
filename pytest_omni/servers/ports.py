"""Ports that no other worker or session of ours takes between the choice and the server's own bind."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from omni_hardware.errors import InfrastructureError
from pytest_omni.servers.params import HOST

_TRIES = 128


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
        with _bound(None) as port:
            lock = FileLock(folder / f"{port}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
        try:
            yield port
        finally:
            lock.release()
        return
    raise InfrastructureError(f"no free port on {HOST} in {_TRIES} tries; locks lie in {folder}")


@contextmanager
def _locked(folder: Path, wanted: int, wait_s: float) -> Iterator[int]:
    lock = FileLock(folder / f"{wanted}.lock")
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        waited = f", still after {wait_s:g} s" if wait_s else ""
        raise InfrastructureError(
            f"port {wanted} is reserved by another server of these tests{waited}; "
            "leave port=None to get a free one"
        ) from None
    try:
        with _bound(wanted):
            pass
        yield wanted
    finally:
        lock.release()


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
