"""Whether somebody asked the runner to stop: a value that its loops look at, and the signals that set it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(slots=True)
class Stop:
    """The first signal that asked us to stop, None while nobody did."""

    number: int | None = None

    @property
    def name(self) -> str:
        """Return "SIGTERM"."""
        return "" if self.number is None else signal.Signals(self.number).name

    def hear(self, number: int, _frame: FrameType | None = None) -> None:
        """Remember the signal; a second one changes nothing, since everything is already on its way out."""
        self.number = self.number or number


@contextmanager
def heard_signals() -> Iterator[Stop]:
    """Yield a Stop that hears SIGTERM, SIGINT and SIGHUP until the block ends."""
    stop = Stop()
    with told_signals(stop.hear):
        yield stop


@contextmanager
def told_signals(hear: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have *hear* called for SIGTERM, SIGINT and SIGHUP until the block ends."""
    before = {number: signal.signal(number, hear) for number in _HEARD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
