"""What the end of a server took, and that one which will not end does not keep the others."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pytest_omni.servers.child import Order, launch, new_tag
from pytest_omni.servers.child_coverage import Recorded, Verdict
from pytest_omni.servers.params import OmniServerParams
from pytest_omni.servers.running import Plan, Running, Servers
from pytest_omni.servers.starting import ServerError
from pytest_omni.servers.stopping import Stopped, Stopping, notes, stop_children

HANG_S = 60.0
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
LEAVES_DEAF = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {DEAF!r}], start_new_session=True).wait()"
COVERAGE = Verdict(Recorded.OFF, "nobody measures", measuring=False)
PLAN = Plan(
    params=OmniServerParams("m"),
    command=lambda _port: [],
    base={},
    folder=Path(),
    ports=Path(),
    weights="real",
    because="",
)


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "grace_s", "outlived", "note"),
    [
        (DEAF, 0.2, False, "had to be killed 0.2 s after SIGTERM: what it had not written is lost"),
        # it follows SIGTERM at once, and what it leaves is deaf
        (LEAVES_DEAF, HANG_S, True, "left processes behind that did not follow SIGTERM and had to be killed"),
    ],
)
def test_what_had_to_be_killed_is_told_apart(monkeypatch, tmp_path, code, grace_s, outlived, note):
    monkeypatch.setattr("omni_hardware.processes._AFTER_ROOT_S", 0.2)
    server = Running(PLAN, 1)
    order = Order([sys.executable, "-c", code], dict(os.environ), tmp_path / "log")
    server.children.append(launch(order, new_tag()))
    deadline = time.monotonic() + HANG_S
    while "up" not in order.log_path.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    stopping = stop_children(server, grace_s=grace_s)
    assert (stopping.how, stopping.outlived) == (Stopped.KILL, outlived)
    (told,) = notes(server, stopping)
    assert note in told
    assert not server.owned()


@pytest.mark.process
def test_a_server_that_died_before_its_launcher_could_say_so_has_ended_by_itself(tmp_path):
    server = Running(PLAN, 1)
    order = Order([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), tmp_path / "log")
    child = launch(order, new_tag())
    server.children.append(child)
    child.launcher.send_signal(signal.SIGSTOP)  # a machine that has no time for it
    child.root.kill()
    deadline = time.monotonic() + HANG_S
    while child.root.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.02)
    threading.Timer(0.3, child.launcher.send_signal, [signal.SIGCONT]).start()
    stopping = stop_children(server, grace_s=HANG_S)
    assert (stopping.how, stopping.code) == (Stopped.CRASH, -signal.SIGKILL)


class Stubborn(Running):
    """A server of which something outlives SIGKILL, as a driver's call may."""

    survivors = ""

    def stop(self, *, grace_s: float | None = None) -> Stopping:  # noqa: ARG002
        self.stopped = Stopped.KILL
        return Stopping(
            how=Stopped.KILL, coverage=COVERAGE, grace_s=0.0, alive_s=0.0, survivors=self.survivors
        )


def test_a_survivor_does_not_keep_the_other_servers_alive():
    heard: list[str] = []
    servers = Servers(lambda running, _: heard.append(running.params.model), is_worker=False)
    for model, survivors in (("a", "pid 7"), ("b", ""), ("c", "pid 9")):
        running = Stubborn(replace(PLAN, params=OmniServerParams(model)), 1)
        running.survivors = survivors
        servers._live.append(running)
    with pytest.raises(ServerError, match=r"^pid 7\npid 9$"):
        servers.stop_all()
    assert heard == ["a", "b", "c"]


def test_a_survivor_at_the_end_of_the_session_makes_it_red(armed, inner):
    with (armed.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nfrom pytest_omni.servers.starting import ServerError\n"
            "from pytest_omni.session import servers_of\n"
            "def pytest_sessionfinish(session):\n"
            "    def stuck(): raise ServerError('still alive after SIGKILL: pid 7 (serve)')\n"
            "    servers_of(session.config).stop_all = stuck\n"
        )
    armed.makepyfile("def test_a(): pass")
    result = inner()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.errlines == ["ERROR: still alive after SIGKILL: pid 7 (serve)"]
