"""What is left when pytest ends in other ways than by itself: nothing."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from functools import partial

import psutil
import pytest

from pytest_omni.servers.lifelines import TerminationHandler

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("talk")]

HEAD = "from talk import *\n"
HANG_S = 60.0


def waits(*flags: str, pids: object) -> str:
    """A module whose test makes `ready` and waits for ever."""
    words = ", ".join(repr(flag) for flag in flags)
    return (
        f"{HEAD}@served({words + ', ' if words else ''}'--pids', {pids})\n"
        "def test_a(omni_server):\n    open('ready', 'w').close()\n    time.sleep(600)\n"
    )


def ended(outer) -> str:
    return outer.communicate(timeout=HANG_S)[0].decode()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 2), (signal.SIGHUP, 129)],
    ids=["SIGTERM", "SIGINT", "SIGHUP"],
)
def test_a_signal_to_pytest_stops_the_server(armed, started, pids, number, code):
    armed.makepyfile(waits("--stray", pids=pids))
    outer = started()
    outer.send_signal(number)
    text = ended(outer)
    assert outer.returncode == code, text
    assert pids.are_dead()
    assert len(pids.read()) == 2
    assert "INTERNALERROR" not in text


# Each of them ends pytest without one more line of its code.
ABRUPT = {
    "SIGKILL": "",
    "os._exit in a conftest": (
        "import os, threading, time\n"
        "def pytest_runtest_setup(item):\n"
        "    def leave():\n"
        "        while not os.path.exists('ready'): time.sleep(0.02)\n"
        "        os._exit(9)\n"
        "    threading.Thread(target=leave, daemon=True).start()\n"
    ),
    "a fork that holds on to everything": (
        "import os, time\n"
        "def pytest_runtest_call(item):\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(30)\n"
        "        os._exit(0)\n"
    ),
}


@pytest.mark.parametrize("how", ABRUPT)
def test_a_pytest_that_is_cut_off_leaves_nothing(armed, started, pids, how):
    """Deaf grandchildren in sessions of their own included; the launcher sees the end of the pipe, or of its parent."""
    conftest = armed.path / "conftest.py"
    conftest.write_text(conftest.read_text() + "\n" + ABRUPT[how])
    armed.makepyfile(waits("--deaf", "--stray", pids=pids))
    outer = started()
    forks = psutil.Process(outer.pid).children() if "fork" in how else []
    if "exit" not in how:
        outer.kill()
    outer.wait(timeout=HANG_S)
    assert pids.are_dead()
    assert len(pids.read()) == 2
    for fork in forks:
        with contextlib.suppress(psutil.NoSuchProcess):
            fork.kill()


@pytest.mark.parametrize("method", ["thread", "signal"])
def test_pytest_timeout134_a_timeout_leaves_no_server(armed, inner, pids, method):
    armed.makepyfile(
        waits("--deaf", pids=pids)
        .replace("'--pids'", "stop_timeout=0.3, *['--pids'")
        .replace(f"{pids})", f"{pids}])")
    )
    plugins = ("pytest_timeout", "pytest_omni.plugin")
    # the call alone is timed: the server is there by then, however slow it was
    limit = ("--timeout=1", "--override-ini=timeout_func_only=true")
    result = inner(*limit, f"--timeout-method={method}", plugins=plugins)
    assert result.ret == 1
    result.stdout.fnmatch_lines_random(["*Timeout*1.0s*"] if method == "signal" else ["*Timeout*"])
    assert pids.are_dead()


def test_a_server_that_a_thread_started_outlives_the_thread(armed, inner, pids):
    # a parent-death signal would end it with the thread
    armed.makepyfile(
        HEAD
        + f"""
class InThread:
    def __init__(self, work): self.work = work
    def __call__(self):
        thread = threading.Thread(target=self.run)
        thread.start(); thread.join()
        return self.value
    def run(self): self.value = self.work()

@pytest.fixture
def from_thread(request):
    return InThread(lambda: request.getfixturevalue("omni_server"))()

@served("--pids", {pids})
def test_a(from_thread, omni_server):
    time.sleep(1)
    assert get(from_thread) == str(omni_server.pid)
"""
    )
    inner().assert_outcomes(passed=1)
    assert pids.are_dead()


def test_sigterm_keeps_what_the_session_had_to_tell(armed, started, pids):
    armed.makepyfile(
        test_told=f"""{HEAD}
def test_fails():
    assert "the reason" == "of this failure"

@served("--deaf", "--pids", {pids}, stop_timeout=0.3)
def test_a(omni_server):
    open("ready", "w").close()
    time.sleep(600)
"""
    )
    outer = started()
    outer.terminate()
    text = ended(outer)
    assert outer.returncode == 143, text
    for told in (
        "E       AssertionError: assert 'the reason' == 'of this failure'",
        "FAILED test_told.py::test_fails",
        " omni notes =",
        "had to be killed 0.3 s after SIGTERM",
        "Exit: SIGTERM: stopping the servers of this session",
        "1 failed",
    ):
        assert told in text, text
    assert pids.are_dead()


def test_a_second_sigterm_does_not_cut_the_teardown_short(armed, started, pids):
    armed.makepyfile(
        f"""{HEAD}
@pytest.fixture(scope="module")
def slow_to_stop(omni_server):
    yield
    open("stopping", "w").close()
    while not os.path.exists("told again"): time.sleep(0.02)
    open("stopped", "w").close()

@served("--pids", {pids})
def test_a(omni_server, slow_to_stop):
    open("ready", "w").close()
    time.sleep(600)
"""
    )
    outer = started()
    outer.terminate()
    deadline = time.monotonic() + HANG_S
    while not (armed.path / "stopping").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    outer.terminate()
    (armed.path / "told again").touch()
    text = ended(outer)
    assert outer.returncode == 143, text
    assert (armed.path / "stopped").exists()
    assert pids.are_dead()


def test_a_signal_while_a_server_stops_leaves_it_its_time(armed, started, pids):
    armed.makepyfile(
        f"""{HEAD}
# the server says when SIGTERM has come, and goes on for longer than a launcher alone would let it
@served("--lingers", "3", "--pids", {pids}, stop_timeout=30)
def test_a(omni_server):
    open("ready", "w").close()
"""
    )
    outer = started("--omni-report", "report.json")
    deadline = time.monotonic() + HANG_S
    while not (armed.path / "lingering").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    outer.terminate()
    text = ended(outer)
    assert outer.returncode == 143, text
    assert (armed.path / "lingered").exists()
    assert "Traceback" not in text
    (server,) = json.loads((armed.path / "report.json").read_text())["servers"]
    assert server["stopped"] == "term"


def test_sigterm_while_a_server_starts_stops_it(armed, started, pids):
    armed.makepyfile(
        f"""{HEAD}
open("ready", "w").close()

@served("--never-binds", "--pids", {pids})
def test_a(omni_server): pass
"""
    )
    outer = started()
    deadline = time.monotonic() + HANG_S
    while not pids.read() and time.monotonic() < deadline:
        time.sleep(0.02)
    outer.terminate()
    text = ended(outer)
    assert outer.returncode == 143, text
    assert pids.are_dead()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda v: v.name)
def test_a_signal_to_the_xdist_controller_ends_its_workers_in_order(armed, started, pids, number):
    with (armed.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nimport os\n"
            "def pytest_runtest_logreport(report):\n"
            "    if report.failed and 'PYTEST_XDIST_WORKER' not in os.environ: open('told', 'w').close()\n"
        )
    # not before the controller has heard of the other test's end
    heard = "    while not os.path.exists('told'): time.sleep(0.02)\n"
    test_a = waits(pids=pids).replace("    open('ready'", f"{heard}    open('ready'")
    armed.makepyfile(test_told=f"{test_a}def test_b(): assert 0, 'the reason'\n")
    outer = started("-n2")
    outer.send_signal(number)
    text = ended(outer)
    assert outer.returncode == 128 + number, text
    assert f"Exit: {number.name}: stopping the servers of this session" in text
    assert "FAILED test_told.py::test_b" in text
    assert pids.are_dead()


def test_sigterm_to_the_workers_ends_the_session_with_its_summary(armed, started, pids):
    armed.makepyfile(waits(pids=pids))
    outer = started("-n1")
    for worker in psutil.Process(outer.pid).children():
        worker.terminate()
    text = ended(outer)
    assert outer.returncode == pytest.ExitCode.INTERRUPTED, text
    assert "INTERNALERROR" not in text
    assert pids.are_dead()


def test_a_worker_without_its_controller_stops_even_a_deaf_server(armed, started, pids):
    # execnet ends such a worker after 15 s, teardown or not; the default stop_timeout is longer than that
    armed.makepyfile(waits("--deaf", pids=pids))
    outer = started("-n1")
    outer.kill()
    assert pids.are_dead()


def test_signal_handlers_are_as_before_once_the_server_is_gone(armed, inner):
    armed.makepyfile(test_1_server=HEAD + "@served()\ndef test_a(omni_server): get(omni_server)")
    armed.makepyfile(
        test_2_after="import signal\ndef test_b():\n"
        "    for number in (signal.SIGTERM, signal.SIGHUP):\n"
        "        assert signal.getsignal(number) is signal.SIG_DFL\n"
    )
    inner().assert_outcomes(passed=2)


def test_a_handler_takes_only_what_is_not_ignored_and_gives_it_back():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        told: list[str] = []
        handler = TerminationHandler(partial(told.append, "workers"))
        handler.install()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        handler.restore()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        handler.install()
        with pytest.raises(pytest.exit.Exception, match="SIGTERM: stopping the servers"):
            signal.raise_signal(signal.SIGTERM)
        assert (told, handler.exit_code) == (["workers"], 143)
        handler.restore()  # not while the session ends
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        for number, was in before.items():
            signal.signal(number, was)
