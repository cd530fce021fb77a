"""Inner pytest runs: plugin autoload off, our plugin by name, a project of a few lines."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from omni_hardware.processes import is_alive
from omni_hardware.visibility import RULES, variables
from pytest_omni.machine import SNAPSHOT
from pytest_omni.options import OPTIONS

STUB = Path(__file__).with_name("stub_server.py")
HANG_GUARD_S = 60.0
# the second collects garbage ten times a session: a sixth of what a session of one test costs
WITHOUT = ("-p", "no:cacheprovider", "-p", "no:unraisableexception")
# CI and BUILD_NUMBER: pytest then prints its short summary uncut, so that every message is there twice.
OUTER = (
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "PYTEST_XDIST_TESTRUNUID",
    "PYTEST_OMNI_CALLER",
    "PYTEST_OMNI_REPLACES",
    "OMNI_LEASE_TIMEOUT",
    "CI",
    "BUILD_NUMBER",
    SNAPSHOT,
    *(row.env for row in OPTIONS if row.env),
    "BUILDKITE_PARALLEL_JOB",
    "BUILDKITE_PARALLEL_JOB_COUNT",
    # what says which devices a process sees, on every platform
    *(name for platform in RULES for name in variables(platform)),
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
        command = (sys.executable, "-m", "pytest", *WITHOUT, *named, *args)
        return pytester.run(*command, timeout=HANG_GUARD_S)

    return run


@pytest.fixture
def armed(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that asks for the plugin and knows how to serve."""
    pytester.makepyprojecttoml("[tool.omni]\n\n[tool.pytest.ini_options]\naddopts = ['--strict-markers']\n")
    pytester.makeconftest(CONFTEST)
    return pytester


# Time for who waits begins once the file `far` says that what he waits for has come as far as the test wants: how fast
# Python starts says something about the machine only, and a short limit is then enough.
PATIENT = """
import os as _os, pathlib as _pathlib, time as _time

_os.environ["STUB_FAR"] = _os.path.abspath("far")

class _Patient:
    began = None

    def __call__(self):
        if self.began is None and _pathlib.Path("far").exists():
            self.began = _time.monotonic()
        return 0.0 if self.began is None else _time.monotonic() - self.began

patient = _Patient()
"""


@pytest.fixture
def patient(pytester: pytest.Pytester) -> Callable[[str], None]:
    """Append PATIENT to the inner conftest.py, and a line that puts the clock `patient` where it counts."""

    def put(line: str) -> None:
        with (pytester.path / "conftest.py").open("a") as conftest:
            conftest.write(f"{PATIENT}\n{line}\n")

    return put


@pytest.fixture
def patient_start(armed: pytest.Pytester, patient: Callable[[str], None]) -> None:
    """The limits of a server's start begin once the stub has made the file `far`."""
    patient(
        "from pytest_omni.servers.starting import Watch\nWatch.__init__.__kwdefaults__['clock'] = patient"
    )


class Cards(Protocol):
    def __call__(self, count: int, *, platform: str = ..., sku: str = ...) -> tuple[str, str]: ...


@pytest.fixture
def cards(armed: pytest.Pytester) -> Cards:
    """Give the armed project a machine: *count* devices in an inventory file; return the option that names it."""

    def make(count: int, *, platform: str = "cuda", sku: str = "H100") -> tuple[str, str]:
        devices = [
            {
                "index": index,
                "uuid": f"GPU-{index:08x}",
                "sku": sku,
                "memory_mib": 81559,
                "used_mib": 0,
                "mig": None,
            }
            for index in range(count)
        ]
        document = {"schema": 1, "platform": platform, "driver": "1", "error": None, "devices": devices}
        (armed.path / "inventory.json").write_text(json.dumps(document))
        return "--omni-inventory", "inventory.json"

    return make


# What a module of an inner project starts with, to have a server and to talk to it.
TALK = """
import http.client, os, signal, threading, time
import psutil
import pytest
from pytest_omni import OmniServerParams

def get(server, path="/"):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read().decode()

def gone(pid):
    try:
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE: time.sleep(0.02)
    except psutil.NoSuchProcess:
        pass

def served(*args, fixture="omni_server", **kwargs):
    params = OmniServerParams("stub", server_args=args, **kwargs)
    return pytest.mark.parametrize(fixture, [params], indirect=True, ids=["stub"])
"""


@pytest.fixture
def talk(armed: pytest.Pytester) -> None:
    """Put TALK beside the tests of the armed project: `from talk import *`."""
    armed.makepyfile(talk=TALK)


def lives(pid: int) -> bool:
    """Whether *pid* runs; between two questions about it, it may end."""
    try:
        return is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


class Pids:
    """A file to which stub servers append their pids."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return repr(str(self.path))

    def read(self) -> list[int]:
        return [int(word) for word in self.path.read_text().split()] if self.path.exists() else []

    def living(self) -> list[int]:
        return [pid for pid in self.read() if lives(pid)]

    def are_dead(self) -> bool:
        """Whether all of them are gone within the hang guard, and there was one."""
        deadline = time.monotonic() + HANG_GUARD_S
        while self.living() and time.monotonic() < deadline:
            time.sleep(0.05)
        return bool(self.read()) and not self.living()


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Pids]:
    """A file for the pids of servers, none of which outlives the test."""
    found = Pids(tmp_path / "pids")
    yield found
    for pid in found.living():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Started(Protocol):
    def __call__(self, *args: str, plugins: tuple[str, ...] = ...) -> subprocess.Popen[bytes]: ...


@pytest.fixture
def started(armed: pytest.Pytester) -> Iterator[Started]:
    """Start pytest in the armed project, and return once one of its tests has made the file `ready`."""
    running: list[subprocess.Popen[bytes]] = []

    def start(
        *args: str, plugins: tuple[str, ...] = ("xdist.plugin", "pytest_omni.plugin")
    ) -> subprocess.Popen[bytes]:
        named = [word for plugin in plugins for word in ("-p", plugin)]
        outer = subprocess.Popen(
            [sys.executable, "-m", "pytest", *WITHOUT, *named, *args],
            cwd=armed.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        running.append(outer)
        deadline = time.monotonic() + HANG_GUARD_S
        while not (armed.path / "ready").exists() and time.monotonic() < deadline and outer.poll() is None:
            time.sleep(0.02)
        assert (armed.path / "ready").exists(), outer.communicate(timeout=HANG_GUARD_S)[0].decode()
        return outer

    yield start
    for outer in running:
        outer.kill()
        outer.communicate()
