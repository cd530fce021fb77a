"""What keeps a server from outliving pytest: installed with the first server, gone with the last."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

SIGTERM_EXIT = 128 + signal.SIGTERM
_LOOK_EVERY_S = 0.3


class TerminationHandler:
    """Turns SIGTERM into an orderly end of the session, so that fixtures are torn down.

    `timeout 20m pytest`, a cancelled job and a deleted pod all send SIGTERM, which by default ends Python at once.
    *ending* is true from the signal on. pytest prints its summaries for exit codes of its own only, so the session
    ends like an interrupted one; who reads *ending* sets SIGTERM_EXIT once they are written.
    """

    def __init__(self) -> None:
        self._previous: Any = None
        self._installed = False
        self.ending = False

    def install(self) -> None:
        """Take SIGTERM over; only the main thread may, elsewhere nothing happens."""
        if threading.current_thread() is threading.main_thread() and not self._installed:
            self._previous = signal.signal(signal.SIGTERM, self._end_session)
            self._installed = True

    def restore(self) -> None:
        """Give SIGTERM back, unless somebody took it from us meanwhile."""
        # not while the session ends: a second signal would cut the teardown of the next server short
        if self._installed and not self.ending and signal.getsignal(signal.SIGTERM) == self._end_session:
            signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)
            self._installed = False

    def _end_session(self, _number: int, _frame: FrameType | None) -> None:
        if not self.ending:
            self.ending = True
            pytest.exit("SIGTERM: stopping the servers of this session")


class ParentWatch:
    """Calls *orphaned* when the process that started us is gone.

    An xdist worker whose controller was terminated lives on for up to 15 s and is then ended without teardown.
    """

    def __init__(self, orphaned: Callable[[], None]) -> None:
        self._orphaned = orphaned
        self._over = threading.Event()
        self._parent = os.getppid()

    def install(self) -> None:
        """Start watching, in a thread of its own."""
        self._over = threading.Event()
        threading.Thread(
            target=self._watch, args=(self._over,), name="omni-parent-watch", daemon=True
        ).start()

    def restore(self) -> None:
        """Stop watching."""
        self._over.set()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_LOOK_EVERY_S):
            if os.getppid() != self._parent:
                self._orphaned()
                return
