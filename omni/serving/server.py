"""The life of a server process: serve while loading, stop on a signal without losing an answer.

signal while loading      ends at once, exit 0
first signal              stops accepting, finishes what is in flight within GRACE_S, exit 0
second signal             ends at once, exit 128 + signal
load fails                ends with that error
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

from omni.serving.app import create_app
from omni.serving.slot import Engine, EngineSlot, State
from omni.serving.sockets import url_of

GRACE_S = 10
"""Seconds that requests in flight get after the first signal; then they end between two steps."""
_ANSWER_S = 2  # for the refusals to those that did not make it

_log = logging.getLogger(__name__)


def run(listener: socket.socket, slot: EngineSlot, build: Callable[[], Engine]) -> None:
    """Print the address and serve *slot* on *listener* while *build* loads its engine, until a signal.

    Raises what *build* raises; otherwise returns when the last answer is out.
    """
    asyncio.run(_serve(listener, slot, build))


async def _serve(listener: socket.socket, slot: EngineSlot, build: Callable[[], Engine]) -> None:
    server = uvicorn.Server(_config(slot))
    # uvicorn would raise the signal again when it is done: exit -15, and nothing after it runs.
    server.capture_signals = contextlib.nullcontext
    ending = _Ending(server, slot)
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
        _log.warning("a step takes longer than the grace of %d s; leaving without it", GRACE_S)
        _leave(0)


def _config(slot: EngineSlot) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(slot),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S + _ANSWER_S,
    )


async def _load(slot: EngineSlot, build: Callable[[], Engine]) -> None:
    began = time.monotonic()
    await slot.load(build)
    _log.info("%s is ready after %.1f s", slot.name, time.monotonic() - began)


class _Ending:
    """What ends the server: a signal, or a load that failed."""

    def __init__(self, server: uvicorn.Server, slot: EngineSlot) -> None:
        self._server = server
        self._slot = slot
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
        _log.info("%s: finishing what is in flight, at most %d s; again ends at once", name, GRACE_S)
        self._server.should_exit = True
        asyncio.get_running_loop().call_later(GRACE_S, self._slot.stop)

    def loaded(self, loading: asyncio.Future[None]) -> None:
        if loading.cancelled() or loading.exception():
            self._server.should_exit = True


def _leave(code: int) -> NoReturn:
    # The engine's thread may be deep in an import or a kernel: a normal exit would wait for it, or crash in it.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
