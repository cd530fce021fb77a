"""The hooks that a project implements in its conftest.py; the plugin knows no runtime by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_omni.servers.params import OmniServer, OmniServerParams


@pytest.hookspec(firstresult=True)
def pytest_omni_server_command(
    config: pytest.Config, params: OmniServerParams, port: int
) -> Sequence[str] | Sequence[Sequence[str]] | None:
    """Return the command line that serves ``params.model`` on 127.0.0.1:*port*, or None to leave it to others.

    A list of lists starts several processes, in that order, which are one server: it is ready when one of them holds
    the port and all of them run, and they are stopped together. Nothing goes through a shell; ``params.env`` is laid
    over pytest's own environment.
    """


@pytest.hookspec(firstresult=True)
def pytest_omni_engine(config: pytest.Config, params: OmniServerParams) -> Any:
    """Return what `omni_runner` yields for *params*: an engine in this process; None leaves it to others.

    A context manager is entered and left; else its ``close()`` is called at the end, where it has one.
    """


@pytest.hookspec(firstresult=True)
def pytest_omni_client(config: pytest.Config, target: OmniServer | Any, run_level: str) -> Any:
    """Return the client that `online_client` (*target* is a server) or `offline_client` (an engine) yields.

    None leaves it to others, and at last to the plugin's own.
    """


@pytest.hookspec(firstresult=True)
def pytest_omni_tiny_model(config: pytest.Config, model: str) -> str | None:
    """Return the folder of a small random model that may stand for *model* at the shallowest run level, or None."""
