"""The hooks that a project implements in its conftest.py; the plugin knows no runtime by itself."""

from __future__ import annotations

import pytest

from pytest_omni.server import OmniServerParams


@pytest.hookspec(firstresult=True)
def pytest_omni_server_command(
    config: pytest.Config, params: OmniServerParams, port: int
) -> list[str] | None:
    """Return the command line that serves ``params.model`` on 127.0.0.1:*port*, or None to leave it to others.

    The list is run as it is, without a shell, with ``params.env`` laid over pytest's own environment.
    """
