"""The life of a server process: serve while loading, stop on a signal without losing an answer.

before the address is printed   the signal's own effect: exit -15 for SIGTERM, 130 for SIGINT
signal while loading            ends at once, exit 0
first signal                    stops accepting, finishes what is in flight, exit 0 within GRACE_S
second signal                   ends at once, exit 128 + signal
load fails                      ends with that error
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import uvicorn
from fastapi import FastAPI

from omni.errors import OmniError
from omni.serving.app import create_app
from omni.serving.bodies import Arrivals
from omni.serving.slot import Engine, EngineSlot, State
from omni.serving.sockets import url_of

GRACE_S = 10
"""Seconds from the first signal to the end of the process, whatever is in flight."""
_ANSWER_S = 2  # the last of them, for the refusals to those that do not make it
_EXIT_S = 0.5  # and of those, to be gone in time

_log = logging.getLogger(__name__)


def run(listener: socket.socket, slot: EngineSlot, build: Callable[[], Engine]) -> None:
    """Print the address and serve *slot* on *listener* while *build* loads its engine, until a signal.

    Raises what *build* raises; otherwise returns when the last answer is out.
    """
    asyncio.run(_serve(listener, slot, build))


async def _serve(listener: socket.socket, slot: EngineSlot, build: Callable[[], Engine]) -> None:
    app = create_app(slot)
    server = uvicorn.Server(_config(app))
    # uvicorn would raise the signal again when it is done: exit -15, and nothing after it runs.
    server.capture_signals = contextlib.nullcontext
    ending = _Ending(server, slot, app.state.arrivals)
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, ending.asked, signum)
    # Said only now: who reads this line may already send a signal.
    print(f"omni: listening on {url_of(listener)}", flush=True)
    loading = asyncio.ensure_future(_load(slot, build))
    loading.add_done_callback(ending.loaded)
    await server.serve(sockets=[listener])
    if loading.done():
        loading.result()
    if slot.busy:
        _log.warning("nobody waits for the step that still runs; leaving without it")
        _leave(0)


def _config(app: FastAPI) -> uvicorn.Config:
    # No timeout of uvicorn's own: it cancels requests, with a traceback for each, where ours answers them.
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
    )


async def _load(slot: EngineSlot, build: Callable[[], Engine]) -> None:
    began = time.monotonic()
    await slot.load(build)
    _log.info("%s is ready after %.1f s", slot.name, time.monotonic() - began)


class _Ending:
    """What ends the server: a signal, or a load that failed."""

    def __init__(self, server: uvicorn.Server, slot: EngineSlot, arrivals: Arrivals) -> None:
        self._server = server
        self._slot = slot
        self._arrivals = arrivals
        self._signals = 0

    def asked(self, signum: int) -> None:
        name = signal.Signals(signum).name
        self._signals += 1
        if self._signals > 1:
            _log.warning("%s again: leaving at once", name)
            _leave(128 + signum)
        if self._slot.state is State.LOADING:
            _log.info("%s while loading: nothing is in flight, leaving", name)
            _leave(0)
        _log.info("%s: finishing what is in flight, at most %g s; again ends at once", name, GRACE_S)
        self._server.should_exit = True
        self._arrivals.stop()
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE_S - _ANSWER_S, self._slot.stop)
        loop.call_later(GRACE_S - _EXIT_S, self._late)

    def _late(self) -> None:
        _log.warning("something takes longer than the grace of %g s; leaving without it", GRACE_S)
        _leave(0)

    def loaded(self, loading: asyncio.Future[None]) -> None:
        if loading.cancelled() or loading.exception():
            self._server.should_exit = True


def _leave(code: int) -> NoReturn:
    # The engine's thread may be deep in an import or a kernel: a normal exit would wait for it, or crash in it.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, OmniError):
            stream.flush()
    os._exit(code)
