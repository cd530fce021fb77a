"""Engines inside the pytest process, and the clients of engines and servers; both come from the project's hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from typing import Any

import pytest

from omni_hardware.errors import InputError, OmniError
from pytest_omni.cards.devices import granted
from pytest_omni.run_level import level_of
from pytest_omni.servers.params import OmniServerParams
from pytest_omni.servers.serving import SERVER_FIXTURES, asked_params, current_item, prepared
from pytest_omni.session import servers_of
from pytest_omni.usage import ENGINE_HOOK

_END_KNOWN_S = 1.0
_RUNNERS = ("omni_runner_function", "omni_runner")


@pytest.fixture(scope="module")
def omni_runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An engine in this process, from an indirect parameter ``OmniServerParams``; closed after the module."""
    yield from _engine(request, tmp_path_factory)


@pytest.fixture
def omni_runner_function(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The same for one test."""
    yield from _engine(request, tmp_path_factory)


@pytest.fixture
def online_client(request: pytest.FixtureRequest) -> Any:
    """A client of this test's server (omni_server_function, else omni_server), which knows the run level."""
    server = request.getfixturevalue(_used(request, SERVER_FIXTURES))
    level = level_of(request.config).name
    if (client := _from_hook(request, server, level)) is not None:
        return client
    from pytest_omni.servers.clients import OnlineClient

    ended = partial(servers_of(request.config).end_of, server, wait_s=_END_KNOWN_S)
    return OnlineClient(server.url, level, ended=ended)


@pytest.fixture
def offline_client(request: pytest.FixtureRequest) -> Any:
    """A client of this test's engine (omni_runner_function, else omni_runner), which knows the run level."""
    engine = request.getfixturevalue(_used(request, _RUNNERS))
    level = level_of(request.config).name
    if (client := _from_hook(request, engine, level)) is not None:
        return client
    from pytest_omni.servers.clients import OfflineClient

    return OfflineClient(engine, level)


def _used(request: pytest.FixtureRequest, names: tuple[str, ...]) -> str:
    return next((name for name in names if name in request.fixturenames), names[-1])


def _from_hook(request: pytest.FixtureRequest, target: object, level: str) -> Any:
    return request.node.ihook.pytest_omni_client(config=request.config, target=target, run_level=level)


def _engine(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[Any]:
    problem = ""
    with ExitStack() as stack:
        try:
            stack.enter_context(granted(request))  # its cards stay its own as long as the engine lives
            params = prepared(request, asked_params(request), factory.mktemp("omni-runner")).params
            engine = stack.enter_context(_entered(_made(request, params)))
        except OmniError as error:
            problem = str(error)
        else:
            yield engine
    if problem:
        pytest.fail(problem, pytrace=False)


def _made(request: pytest.FixtureRequest, params: OmniServerParams) -> Any:
    engine = current_item(request).ihook.pytest_omni_engine(config=request.config, params=params)
    if engine is None:
        raise InputError(f"no {ENGINE_HOOK} hook returned an engine for {params}")
    return engine


def _entered(engine: Any) -> AbstractContextManager[Any]:
    if isinstance(engine, AbstractContextManager):
        return engine
    return closing(engine) if hasattr(engine, "close") else _Kept(engine)


class _Kept(AbstractContextManager[Any]):
    """An engine that needs no end."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __enter__(self) -> Any:
        return self._engine

    def __exit__(self, *_: object) -> None:
        return None
