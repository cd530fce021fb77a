"""One server process behind its launcher: started, asked how it is, and everything it started found again."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_hardware.redaction import secret_values
from pytest_omni.servers.params import shown_command
from pytest_omni.servers.starting import ServerError

if TYPE_CHECKING:
    import psutil

TAG = "PYTEST_OMNI_SERVER"
LAUNCHER = Path(__file__).with_name("launcher.py")
_TAIL_LINES = 40
_ANSWER_S = 60.0
_ORPHAN_GRACE_S = 1.5  # with pytest dead nobody waits for the server's last words
_LAUNCHER_END_S = 10.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to run: *command* with exactly *env*, its output appended to *log_path*."""

    command: Sequence[str]
    env: Mapping[str, str]
    log_path: Path


@dataclass(slots=True, eq=False)
class Child:
    """One process of a server. *root* is the process itself, which the launcher does not reap before `let_go`."""

    order: Order
    tag: str
    launcher: subprocess.Popen[bytes]
    root: psutil.Process
    _link: socket.socket
    _heard: bytes = b""
    _code: int | None = None
    _open: bool = True
    _seen: set[int] = field(default_factory=set)

    @property
    def pid(self) -> int:
        """The pid of the server's own process, not of the launcher's."""
        return self.root.pid

    @property
    def seen(self) -> frozenset[int]:
        """Return every pid that was found to be this child's, dead ones too."""
        return frozenset(self._seen)

    def exit_code(self) -> int | None:
        """Return how the process ended, None while it runs; the launcher's own end counts as the process's."""
        if self._code is None and self._open:
            with contextlib.suppress(BlockingIOError):
                self._heard += self._link.recv(1 << 12, socket.MSG_DONTWAIT)
            if b"\n" in self._heard:
                self._code = json.loads(self._heard)["exit"]
        if self._code is None:
            self._code = self.launcher.poll()
        return self._code

    def owned(self) -> list[psutil.Process]:
        """Return what lives of it: the process, what it started, orphans and other sessions included."""
        from omni_hardware.processes import descendants, is_alive, tagged

        found = {row.pid: row for row in tagged(TAG, self.tag)}
        found |= {row.pid: row for row in (*descendants(self.launcher.pid), *descendants(self.pid))}
        if is_alive(self.root):
            found[self.pid] = self.root
        found.pop(self.launcher.pid, None)
        self._seen |= set(found)
        return list(found.values())

    def tail(self) -> str:
        """Return the end of the log, secrets redacted."""
        from omni_hardware.processes import log_tail

        return log_tail(self.order.log_path, _TAIL_LINES, secrets=secret_values(self.order.env))

    def log_bytes(self) -> int:
        """Return the size of the log."""
        with contextlib.suppress(OSError):
            return self.order.log_path.stat().st_size
        return 0

    def let_go(self) -> None:
        """Let the launcher end what is left and itself; nothing happens the second time."""
        if not self._open:
            return
        self.exit_code()
        self._open = False
        with contextlib.suppress(OSError):  # shut down, since a fork of this process may hold a copy
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()
        try:
            self.launcher.wait(timeout=_LAUNCHER_END_S)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait(timeout=_LAUNCHER_END_S)
        if self._code is None:
            self._code = self.launcher.returncode


def new_tag() -> str:
    """Return a value for the tag that no other server has; a stroke ends it, so that no value starts another."""
    return f"{uuid.uuid4().hex}/"


def launch(order: Order, tag: str) -> Child:
    """Start one process behind a launcher of its own; ServerError says why there is none."""
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as undo:
        undo.callback(ours.close)
        with theirs, order.log_path.open("ab") as log:
            launcher = _start(theirs.fileno(), log.fileno())
        undo.callback(launcher.wait)
        undo.callback(ours.close)  # first of all: the launcher waits for it
        import psutil  # takes a while, as the launcher does to come up

        answer, heard = _asked(ours, order, tag)
        if "pid" not in answer:
            what = shown_command(order.command[:1], order.env)
            raise ServerError(
                f"cannot run {what!r}: {answer.get('error') or _silent(order.log_path)}; "
                f"the command was {shown_command(order.command, order.env)}"
            )
        root = psutil.Process(answer["pid"])
        undo.pop_all()
        return Child(order, tag, launcher, root, ours, heard)


def _start(link: int, log: int) -> subprocess.Popen[bytes]:
    # -I -S: no site-packages, no PYTHON* variables; a session of its own, so that Ctrl-C does not reach it
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCHER), str(link), str(os.getpid())],
        pass_fds=(link,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        start_new_session=True,
    )


def _asked(link: socket.socket, order: Order, tag: str) -> tuple[dict[str, Any], bytes]:
    """Return the launcher's first answer, and what it has said since."""
    request = {
        "command": list(order.command),
        "env": dict(order.env),
        "log": str(order.log_path.absolute()),
        "tag": [TAG, tag],
        "grace": _ORPHAN_GRACE_S,
    }
    heard = b""
    link.settimeout(_ANSWER_S)
    with contextlib.suppress(OSError):  # TimeoutError too
        link.sendall(json.dumps(request).encode() + b"\n")
        while b"\n" not in heard and (part := link.recv(1 << 12)):
            heard += part
    link.settimeout(None)
    first, _, rest = heard.partition(b"\n")
    return (dict(json.loads(first)) if first else {}), rest


def _silent(log_path: Path) -> str:
    from omni_hardware.processes import log_tail

    return f"the launcher ended without a word; {log_tail(log_path, 5) or 'its log is empty'}"
