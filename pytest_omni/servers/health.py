"""What can be asked of a port on this machine: does somebody listen there, and is he healthy?"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pytest_omni.servers.params import HOST

_CONNECT_S = 1.0
_LATE = "no whole answer in time"


def answers(port: int) -> bool:
    """Return whether anybody accepts a connection on *port*."""
    try:
        with socket.create_connection((HOST, port), timeout=_CONNECT_S):
            return True
    except OSError:
        return False


def health(port: int, path: str, *, timeout: float) -> tuple[int | None, str]:
    """Return the status of one GET and how to tell it; None without a whole answer within *timeout* seconds."""
    import http.client

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
