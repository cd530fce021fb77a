"""The listening socket, taken before any weight loads: a taken port costs nothing and is explained."""

from __future__ import annotations

import contextlib
import errno
import socket

import psutil

from omni.errors import InfrastructureError, InputError

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on *host*:*port* (0: any free port).

    Raises InfrastructureError when the port cannot be had, naming who has it; InputError for a host that is none.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host!r}: not an address of this machine: {error}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Listening at once: with SO_REUSEADDR a bound port is not ours until then.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InfrastructureError(_explain(error, host, port)) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL that reaches *listener* from this machine."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _explain(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host} is taken{_owner(port)}; stop it, or choose another with --port "
                "(0: any free one). Nothing was loaded."
            )
        case errno.EACCES:
            return f"port {port} on {host}: not allowed for this user; choose one above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"--host {host}: not an address of this machine; 127.0.0.1 reaches only it, 0.0.0.0 is every address"
        case _:
            return f"cannot listen on {host}:{port}: {error.strerror}"


def _owner(port: int) -> str:
    # Other users' processes may be hidden from us: then the message goes without the name.
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            here = getattr(connection.laddr, "port", None)
            if connection.status == psutil.CONN_LISTEN and here == port and connection.pid:
                return f" by process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""
