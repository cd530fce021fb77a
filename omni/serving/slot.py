"""The place of the one engine: loading, ready or stopping; one generation at a time, never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from omni.engine.request import ImageRequest, ImageResult
from omni.errors import Cancelled
from omni.serving.errors import unavailable

T = TypeVar("T")

QUEUE_LIMIT = 64
"""Requests that may run and wait; more would only time out in line."""


class Sizes(Protocol):
    """What the API needs to know of legal sizes: omni.models.sizes.SizeRules."""

    def resolve(self, size: str | None) -> tuple[int, int]: ...


class Engine(Protocol):
    """What the API needs of an engine: omni.Omni."""

    @property
    def sizes(self) -> Sizes: ...

    def generate(
        self, prompt: ImageRequest, *, cancelled: Callable[[], bool] | None = None
    ) -> ImageResult: ...


class State(StrEnum):
    """What /health says."""

    LOADING = "loading"
    READY = "ok"
    STOPPING = "stopping"


class EngineSlot:
    """Holds the engine of one served model; every torch call happens on its one thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._engine: Engine | None = None
        self._stop = threading.Event()
        self._jobs: set[Future[Any]] = set()
        # One thread for load and runs: torch keeps pools and handles per thread.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="omni-engine")

    @property
    def state(self) -> State:
        """Say where the engine stands."""
        if self._stop.is_set():
            return State.STOPPING
        return State.READY if self._engine else State.LOADING

    @property
    def busy(self) -> bool:
        """Tell whether a load or a request runs or waits; also one whose client is gone but whose step goes on."""
        return bool(self._jobs)

    @property
    def engine(self) -> Engine:
        """Return the loaded engine; raises ApiError 503 while there is none."""
        if self._stop.is_set():
            raise unavailable("the server is stopping", "server_stopping")
        if self._engine is None:
            raise unavailable(
                f"{self.name} is still loading; GET /health answers 200 when it is ready", "loading"
            )
        return self._engine

    async def load(self, build: Callable[[], Engine]) -> None:
        """Build the engine on its thread; what *build* raises is raised here."""
        self._engine = await asyncio.wrap_future(self._submit(build))

    async def generate(self, request: ImageRequest, gone: Callable[[], Awaitable[None]]) -> ImageResult:
        """Return the images of *request* when its turn has come and it is done.

        Ends between two steps, with ApiError 503, when *gone* (the client left) finishes or stop() is called.
        """
        engine = self.engine
        if len(self._jobs) >= QUEUE_LIMIT:
            raise unavailable(f"{QUEUE_LIMIT} requests wait already", "server_busy")
        left = threading.Event()
        # In a list, to be taken back: the thread keeps a cancelled call until its turn would have come.
        order = [request]
        job = self._submit(lambda: self._run(engine, order[0], left))

        def leave(_: asyncio.Future[None]) -> None:
            left.set()
            if job.cancel():
                order.clear()

        watcher = asyncio.ensure_future(gone())
        watcher.add_done_callback(leave)
        try:
            return await asyncio.wrap_future(job)
        except (Cancelled, asyncio.CancelledError):
            if not left.is_set() and not self._stop.is_set():
                raise  # nobody left and nothing stops: it is this task that was cancelled
            raise unavailable(
                "the request was cancelled: client gone or server stopping", "cancelled"
            ) from None
        finally:
            # Also when this task was cancelled: the watcher's end is what tells the engine's thread to stop.
            watcher.cancel()

    def stop(self) -> None:
        """End what runs at its next step and what waits at once."""
        self._stop.set()
        for job in list(self._jobs):
            job.cancel()  # no effect on the one that runs

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        job = self._thread.submit(call)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    def _run(self, engine: Engine, request: ImageRequest, left: threading.Event) -> ImageResult:
        def cancelled() -> bool:
            return left.is_set() or self._stop.is_set()

        if cancelled():
            raise Cancelled("cancelled before it began")
        return engine.generate(request, cancelled=cancelled)
