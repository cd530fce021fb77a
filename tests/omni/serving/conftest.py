from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from omni import Omni
from omni.engine.request import ImageRequest, ImageResult
from omni.serving.app import create_app
from omni.serving.slot import EngineSlot

NAME = "tiny/z_image"


class Watched:
    """The real engine, with its calls counted and, where a test asks for it, held at the door."""

    def __init__(self, engine: Omni) -> None:
        self._engine = engine
        self.sizes = engine.sizes
        self.calls = 0
        self.steps = 0
        self.inside = 0
        self.most_inside = 0
        self.entered = Event()
        self.stepped = Event()
        self.may_go = Event()
        self.may_go.set()
        self.fails_with: Exception | None = None

    def generate(self, prompt: ImageRequest, *, cancelled: Callable[[], bool] | None = None) -> ImageResult:
        self.calls += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        try:
            assert self.may_go.wait(60)
            if self.fails_with:
                raise self.fails_with
            return self._engine.generate(prompt, on_progress=self._step, cancelled=cancelled)
        finally:
            self.inside -= 1

    def _step(self, _image: int, _step: int, _steps: int) -> None:
        self.steps += 1
        self.stepped.set()


class Client:
    """Plain calls into an app in this process."""

    def __init__(self, app: FastAPI, engine: Watched | None = None) -> None:
        self.app = app
        self.engine = engine

    def session(self) -> httpx.AsyncClient:
        # A 500 must reach the client as a response, as it does behind a real server.
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://omni", timeout=60)

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            async with self.session() as session:
                return await session.request(method, path, **how)

        return asyncio.run(call())

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def images(self, **body: Any) -> httpx.Response:
        return self.request("POST", "/v1/images/generations", json={"prompt": "a lighthouse", **body})


@pytest.fixture(scope="session")
def tiny_engine(tiny_z_image: Path) -> Iterator[Omni]:
    with Omni(str(tiny_z_image), device="cpu") as engine:
        yield engine


@pytest.fixture
def client(tiny_engine: Omni) -> Client:
    watched = Watched(tiny_engine)
    slot = EngineSlot(NAME)
    asyncio.run(slot.load(lambda: watched))
    return Client(create_app(slot), watched)


@pytest.fixture
def loading_client() -> Client:
    return Client(create_app(EngineSlot(NAME)))
