"""Processes whose parent has died: ours for a while, where the kernel hands them to us instead of to PID 1.

A process that leads a session of its own and has cleared its environment carries nothing that says who started it.
Its parent's number does, once that is ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from omni_hardware.processes import descendants

# Of Linux' prctl(2).
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37


@dataclass(frozen=True, slots=True)
class Orphans:
    """What hangs below us and did not when we began; *before*: what did."""

    before: frozenset[int]

    def living(self) -> list[psutil.Process]:
        """Return the living processes below us, orphans among them."""
        return [one for one in descendants(os.getpid()) if one.pid not in self.before]

    def reap(self, *, but: int) -> None:
        """Forget the orphans that have ended; the child *but* is somebody else's to wait for."""
        with contextlib.suppress(ChildProcessError):
            while (ended := _ended()) is not None and ended != but and ended not in self.before:
                os.waitpid(ended, 0)


@contextmanager
def adopted() -> Iterator[Orphans | None]:
    """Yield the orphans that become our children until the block ends; None where the system cannot do that."""
    was = _adopts()
    if was is None or not _adopt(on=True):
        yield None
        return
    try:
        yield Orphans(frozenset(one.pid for one in psutil.Process().children(recursive=True)))
    finally:
        _adopt(on=was)


def _adopts() -> bool | None:
    answer = ctypes.c_int()
    done = _prctl(_GET_CHILD_SUBREAPER, ctypes.byref(answer))
    return bool(answer.value) if done else None


def _adopt(*, on: bool) -> bool:
    return _prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(on))


def _prctl(what: int, argument: object) -> bool:
    if sys.platform != "linux":
        return False
    nothing = ctypes.c_ulong(0)
    try:
        return bool(ctypes.CDLL(None).prctl(what, argument, nothing, nothing, nothing) == 0)
    except (OSError, AttributeError):  # no C library that says so
        return False


def _ended() -> int | None:
    """Return the number of a child of ours that has ended and nobody waited for."""
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return None if found is None else found.si_pid
