"""Inner pytest runs: plugin autoload off, our plugin by name, a project of a few lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import pytest

STUB = Path(__file__).with_name("stub_server.py")
HANG_GUARD_S = 60.0
# CI and BUILD_NUMBER: pytest then prints its short summary uncut, so that every message is there twice.
OUTER = (
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "CI",
    "BUILD_NUMBER",
)

CONFTEST = f"""
import sys

def pytest_omni_server_command(config, params, port):
    return [sys.executable, {str(STUB)!r}, "--port", str(port), *params.server_args]
"""


class Inner(Protocol):
    def __call__(self, *args: str, plugins: tuple[str, ...] = ...) -> pytest.RunResult: ...


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner runs see one plugin, and nothing of how the outer run was started."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in OUTER:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def inner(pytester: pytest.Pytester) -> Inner:
    """Run pytest in the pytester folder, in a process, with our plugin and those named."""

    def run(*args: str, plugins: tuple[str, ...] = ("pytest_omni.plugin",)) -> pytest.RunResult:
        named = [word for plugin in plugins for word in ("-p", plugin)]
        command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *named, *args)
        return pytester.run(*command, timeout=HANG_GUARD_S)

    return run


@pytest.fixture
def armed(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that asks for the plugin and knows how to serve."""
    pytester.makepyprojecttoml("[tool.omni]\n\n[tool.pytest.ini_options]\naddopts = ['--strict-markers']\n")
    pytester.makeconftest(CONFTEST)
    return pytester
