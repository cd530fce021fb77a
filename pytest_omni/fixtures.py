"""The fixtures of an armed session; an unarmed one never sees them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from omni_hardware.errors import InputError, OmniError
from pytest_omni.ports import lock_folder
from pytest_omni.progress import ServerProgress
from pytest_omni.server import OmniServer, OmniServerParams, environment, shown_command
from pytest_omni.session import is_worker, servers_of
from pytest_omni.usage import HOOK


@pytest.fixture(scope="module")
def omni_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OmniServer]:
    """A running server, from an indirect parameter ``OmniServerParams``; stopped after the module's last test."""
    config, problem = request.config, ""
    try:
        params = _params(request)
        with servers_of(config).served(
            params,
            lambda port: _command(request, params, port),
            folder=tmp_path_factory.mktemp("omni-server"),
            ports=lock_folder(tmp_path_factory.getbasetemp(), is_worker=is_worker(config)),
            progress=ServerProgress(config, params.model),
        ) as server:
            yield server
    except OmniError as error:
        problem = str(error)
    if problem:  # outside the handler, or pytest prints it twice as cause and effect
        pytest.fail(problem, pytrace=False)


def _params(request: pytest.FixtureRequest) -> OmniServerParams:
    params = getattr(request, "param", None)
    if not isinstance(params, OmniServerParams):
        got = "none" if params is None else f"{type(params).__name__}"
        raise InputError(
            f"omni_server needs an indirect OmniServerParams, got {got}: "
            '@pytest.mark.parametrize("omni_server", [OmniServerParams(model=...)], indirect=True)'
        )
    return params


def _command(request: pytest.FixtureRequest, params: OmniServerParams, port: int) -> list[str]:
    # ihook: a conftest beside the test file is asked before one above it
    command: Any = request.node.ihook.pytest_omni_server_command(
        config=request.config, params=params, port=port
    )
    if command is None:
        raise InputError(f"no {HOOK} hook returned a command for {params}; return a list of strings for it")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        words = command if isinstance(command, list | tuple) else str(command).split()
        got = f"{type(command).__name__} {shown_command(words, environment(os.environ, params))}".rstrip()
        raise InputError(f"{HOOK} must return a non-empty list of strings for {params}, got {got}")
    return command
