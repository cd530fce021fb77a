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
def reserved_port(folder: Path, wanted: int | None = None) -> Iterator[int]:
    """Yield a free port (*wanted*, if given) and hold its lock in *folder* until the end.

    The kernel may hand the same ephemeral port to two callers, once the first has closed its socket: the lock
    keeps them apart. Raises InfrastructureError when *wanted* is taken.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(1 if wanted else _TRIES):
        with _bound(wanted) as port:
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
    if wanted:
        raise InfrastructureError(
            f"port {wanted} is reserved by another test session; leave port=None to get a free one"
        )
    raise InfrastructureError(f"no free port on {HOST} in {_TRIES} tries; locks lie in {folder}")


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
