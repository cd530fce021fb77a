"""Start one server process, and end all it started when pytest is gone. A script, run by its path.

Standard library only, since it runs without site-packages: it starts in 20 ms and nobody's coverage measures it.

    launcher.py LINK PARENT      LINK: one end of a socket pair, PARENT: the pid of pytest

The request is one line of JSON on LINK: command, env, log, tag (name and value), grace. The answers are lines too:
``{"pid": 7}`` or ``{"error": "why"}``, later ``{"exit": 0}``, negative for a signal. End of file on LINK means that
pytest has let go, or was killed: then everything that is left is ended, TERM first. The launcher ends as its child
did. It does not reap the child before, so that the child's pid means nobody else meanwhile.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_PARENT_LOOK_S = 0.5  # a fork of pytest may hold the other end of LINK open
_AFTER_ROOT_S = 0.5
_POLL_S = 0.02
_KILL_FOR_S = 5.0
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Row(NamedTuple):
    """What the process table says about one process."""

    pid: int
    parent: int
    group: int
    session: int
    zombie: bool


def main(arguments: Sequence[str]) -> int:
    """Return the child's exit code, or end by the signal that ended it."""
    number, parent = int(arguments[0]), int(arguments[1])
    os.set_inheritable(number, False)
    link = socket.socket(fileno=number)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    request = _request(link)
    if request is None:  # pytest died before it had asked for anything
        return 0
    _adopt_orphans()
    waking = _wake_on_signals()
    numbers = [getattr(signal, name) for name in _FORWARDED]
    # what comes before the child can be told waits; ending here would leave it to nobody
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        child = _spawn(request)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in a word
        _say(link, {"error": getattr(error, "strerror", None) or str(error)})
        return 127
    for number in numbers:
        _forward(number, child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    _say(link, {"pid": child})
    code = _watch(link, waking, child, parent)
    code = _end(child, request["tag"], request["grace"], code)
    _reap_all()
    return _leave_as(code)


def rows(table: str = "/proc") -> Iterator[Row]:
    """Yield the processes of this machine; nothing where there is no such table."""
    try:
        names = os.listdir(table)  # noqa: PTH208 pathlib costs a quarter of the start
    except OSError:
        return
    for name in names:
        if name.isdigit():
            try:
                with open(f"{table}/{name}/stat", "rb") as stat:
                    # the name in brackets may hold brackets and blanks itself
                    state, parent, group, session = stat.read().rpartition(b")")[2].split()[:4]
            except OSError:
                continue
            yield Row(int(name), int(parent), int(group), int(session), state in {b"Z", b"X"})


def owned(table: Sequence[Row], *, me: int, child: int, tagged: frozenset[int]) -> list[int]:
    """Return the living processes that are ours: below *me*, of the child's session or group, or tagged."""
    below, grew = {me, child}, True
    while grew:
        found = {row.pid for row in table if row.parent in below} - below
        below |= found
        grew = bool(found)
    return [
        row.pid
        for row in table
        if row.pid != me
        and not row.zombie
        and (row.pid in below or child in {row.session, row.group} or row.pid in tagged)
    ]


def _request(link: socket.socket) -> Any:
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        part = link.recv(1 << 16)
        if not part:
            return None
        parts.append(part)
    return json.loads(b"".join(parts))


def _say(link: socket.socket, words: Mapping[str, object]) -> None:
    with suppress(OSError):  # nobody listens any more; the next look says so
        link.sendall(json.dumps(words).encode() + b"\n")


def _adopt_orphans() -> None:
    # A grandchild whose parent has ended stays below us then, whatever session it made for itself.
    if sys.platform == "linux":
        # without it, group, session and tag still find nearly all of them
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _wake_on_signals() -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ours


def _spawn(request: Mapping[str, Any]) -> int:
    command, env, log = request["command"], request["env"], request["log"]
    tag, value = request["tag"]
    return os.posix_spawn(
        _program(command[0], env),
        command,
        {**env, tag: value},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            # A file, since a full pipe that nobody reads stops the server.
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsigmask=(),
        setsid=True,  # its session and group hold what it leaves behind, and Ctrl-C reaches pytest alone
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # which Python ignores, and nobody else expects to be
    )


def _program(word: str, env: Mapping[str, str]) -> str:
    if os.sep in word:
        return word
    places = (f"{folder}/{word}" for folder in os.get_exec_path(dict(env)))
    found = (place for place in places if os.path.isfile(place) and os.access(place, os.X_OK))  # noqa: PTH113
    return next(found, word)


def _forward(number: int, child: int) -> None:
    def pass_on(got: int, _frame: object) -> None:
        with suppress(OSError):
            os.kill(child, got)

    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, pass_on)


def _watch(link: socket.socket, waking: socket.socket, child: int, parent: int) -> int | None:
    """Return the child's exit code once pytest has let go, None if it still runs then."""
    code: int | None = None
    while os.getppid() == parent:
        ready, _, _ = select.select([link, waking], [], [], _PARENT_LOOK_S)
        if waking in ready:
            waking.recv(1 << 12)
        if code is None and (code := _reaped(child)) is not None:
            _say(link, {"exit": code})
        elif code is not None:
            _reap_adopted(child)
        try:
            if link in ready and not link.recv(1 << 12):
                break
        except OSError:
            break
    return code


def _reaped(child: int) -> int | None:
    """Reap everybody but *child*, and return how *child* ended; None while it runs."""
    if not hasattr(os, "waitid"):
        pid, status = os.waitpid(child, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None
    while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if found.si_pid == child:
            return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        os.waitpid(found.si_pid, 0)
    return None


def _reap_adopted(child: int) -> None:
    for row in rows():
        if row.parent == os.getpid() and row.zombie and row.pid != child:
            os.waitpid(row.pid, os.WNOHANG)


def _reap_all() -> None:
    # what is left to PID 1 as a zombie stays one where PID 1 does not reap
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end(child: int, tag: Sequence[str], grace: float, code: int | None) -> int:
    """End what is left: TERM to the child, then to the others, then KILL; return how the child ended."""
    if code is None:
        _send([child], signal.SIGTERM)
        code = _until(lambda: _reaped(child), grace)
    if left := _left(child, tag):
        _send(left, signal.SIGTERM)
        _until(lambda: None if _left(child, tag) else 0, _AFTER_ROOT_S)
    deadline = time.monotonic() + _KILL_FOR_S
    while (left := _left(child, tag)) and time.monotonic() < deadline:
        _send(left, signal.SIGKILL)
        time.sleep(_POLL_S)
    code = _until(lambda: _reaped(child), _AFTER_ROOT_S) if code is None else code
    return -signal.SIGKILL if code is None else code


def _left(child: int, tag: Sequence[str]) -> list[int]:
    table = list(rows())
    if not table:  # no /proc: the group is all there is to know
        try:
            os.killpg(child, 0)
        except OSError:
            return []
        return [-child]
    entry = os.fsencode(f"\0{tag[0]}={tag[1]}\0")
    tagged = frozenset(row.pid for row in table if entry in b"\0" + _environ(row.pid))
    return owned(table, me=os.getpid(), child=child, tagged=tagged)


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return environ.read()
    except OSError:
        return b""


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def _until(look: Callable[[], int | None], seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while (found := look()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return found


def _leave_as(code: int) -> int:
    if code >= 0:
        return code
    with suppress(ImportError, OSError, ValueError):  # KILL has no handler; one core file is enough
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
