"""One turn for the whole process: who loads or draws has it, everybody else waits. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

from omni.errors import InputError

_POLL_S = 0.05  # how soon a request that waits for its turn notices that nobody wants it any more


class Turn:
    """A lock for one thread at a time. Taking it again inside itself raises InputError instead of waiting for ever."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holder: int | None = None

    @contextmanager
    def taken(self, while_waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the turn inside the block; *while_waiting* is called now and then until it comes, and may raise."""
        if self._holder == get_ident():
            raise InputError(
                "an engine is loading or drawing in this thread, and one of its callbacks asked for another load, "
                "image or close; return from the callback first"
            )
        while not self._lock.acquire(timeout=_POLL_S):
            while_waiting()
        self._holder = get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()


# One a process, not one an engine. While diffusers and transformers load, torch's default dtype, the functions that
# initialise weights, the meta device and the switches of progress bars are changed for every thread: an image drawn
# meanwhile comes out different, and a second load finds its weights missing.
TURN = Turn()
