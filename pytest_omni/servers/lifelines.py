"""What keeps a server from outliving pytest: installed with the first server, gone with the last."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import pytest

# What ends a session from outside; SIGINT is pytest's own business. Windows has no SIGHUP.
_ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_LOOK_EVERY_S = 0.3


class TerminationHandler:
    """Turns SIGTERM and SIGHUP into an orderly end of the session, so that fixtures are torn down.

    `timeout 20m pytest`, a cancelled job and a deleted pod all send SIGTERM, a closed terminal SIGHUP; by default
    both end Python at once. pytest prints its summaries for exit codes of its own only, so the session ends like an
    interrupted one; who reads `exit_code` sets it once they are written. *first* is called before the end.
    *doing* says what then happens. A process that a test forks ends at once, as it would without us.
    """

    def __init__(
        self,
        first: Callable[[], None] | None = None,
        *,
        doing: str = "stopping the servers of this session",
    ) -> None:
        self._first = first
        self._doing = doing
        self._pid = os.getpid()
        self._previous: dict[int, Any] = {}
        self._ended_by: int | None = None
        self._holding = self._held_back = False

    @property
    def exit_code(self) -> int | None:
        """Return 128 + the signal that ended the session, None when no signal did."""
        return None if self._ended_by is None else 128 + self._ended_by

    def install(self) -> None:
        """Take the signals over; only the main thread may, elsewhere nothing happens."""
        if threading.current_thread() is not threading.main_thread() or self._previous:
            return
        for number in _ENDINGS:
            previous = signal.getsignal(number)
            if (
                previous is not signal.SIG_IGN or number == signal.SIGTERM
            ):  # nohup ignores SIGHUP, and means it
                self._previous[number] = previous
                signal.signal(number, self._end_session)

    def restore(self) -> None:
        """Give the signals back, except one that somebody took from us meanwhile."""
        # not while the session ends: a second signal would cut the teardown of the next server short
        if self._ended_by is None and threading.current_thread() is threading.main_thread():
            for number, previous in self._previous.items():
                if signal.getsignal(number) == self._end_session:
                    signal.signal(number, previous or signal.SIG_DFL)
            self._previous.clear()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Let a signal end the session after this block, not in it: what ends a server is not to be cut short."""
        if self._holding or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            if self._held_back:
                self._held_back = False
                self._exit()

    def _end_session(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        if self._ended_by is None:
            self._ended_by = number
            if self._first is not None:
                self._first()
            self._held_back = self._holding
            if not self._holding:
                self._exit()

    def _exit(self) -> NoReturn:
        name = signal.Signals(self._ended_by or signal.SIGTERM).name
        pytest.exit(f"{name}: {self._doing}")


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
