"""The processes of one shell: what it started, wherever that has gone, and how all of it ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from omni_ci.runner.orphans import Orphans
from omni_hardware.errors import strip_controls
from omni_hardware.processes import Ending, descendants, is_alive, named, stop_trees, tagged

TAG = "OMNI_RUN_ID"
_POLL_S = 0.05
_LAST_S = 1.0  # what is left when the commands have ended gets at least this long after its own TERM
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Tree:
    """A shell that leads a group of its own, and carries *tag* in its environment as everything below it does.

    orphans: what the kernel hands us when its parent dies; None where it does not, or to more trees than this one.
    """

    shell: subprocess.Popen[bytes]
    tag: str
    orphans: Orphans | None = None

    def members(self) -> list[psutil.Process]:
        """Return what lives below the shell, in its group, anywhere with its tag, or as an orphan; without the shell."""
        orphans = self.orphans.living() if self.orphans else []
        found = [*descendants(self.shell.pid), *tagged(TAG, self.tag), *orphans]
        return list({one.pid: one for one in found if one.pid != self.shell.pid}.values())

    def end(self, number: int, *, grace_s: float) -> Ending:
        """Ask the commands to end with signal *number*, and what they started with TERM; KILL what does not.

        The shell goes first, so that it starts nothing more; then its children, which can end their own in order.
        """
        deadline = time.monotonic() + grace_s
        first = _children(self.shell.pid)
        _send([*_process(self.shell.pid)], signal.SIGTERM)
        _send(first, number)
        while any(map(is_alive, first)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        rest_s = max(_LAST_S, deadline - time.monotonic())
        roots = [*_process(self.shell.pid), *(one for one in first if is_alive(one))]
        ending = stop_trees(roots, self.members, grace_s=rest_s)
        return Ending.TERM if ending is Ending.GONE else ending

    def left(self, *, settle_s: float) -> list[psutil.Process]:
        """Return what still lives after the shell's end; what is on its way out gets *settle_s* seconds."""
        deadline = time.monotonic() + settle_s
        while (found := self.members()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return found


def shown(processes: Iterable[psutil.Process]) -> str:
    """Return the pid and the command of each, a line each, safe on a terminal."""
    lines = (strip_controls(" ".join(named([one]).split())) for one in processes)
    return "\n".join(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…" for line in lines if line)


def _process(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [psutil.Process(pid)]
    return []


def _children(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return psutil.Process(pid).children()
    return []


def _send(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if is_alive(process):
                process.send_signal(number)
