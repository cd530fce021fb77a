"""Real shells with real signals: timeouts, cancellation, and what is left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from omni_ci.errors import GuardError
from omni_ci.runner import run_items
from omni_ci.runner.stopping import Stop, heard_signals

pytestmark = pytest.mark.process
# Says when it is there, and how it ended.
PROGRAM = """
import pathlib, signal, sys, time
where, name, deaf = pathlib.Path(sys.argv[1]), sys.argv[2], "deaf" in sys.argv
def end(number, frame):
    (where / f"{name}.{signal.Signals(number).name}").touch()
    if not deaf:
        sys.exit(9)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, end)
(where / f"{name}.pid").write_text(str(__import__("os").getpid()))
time.sleep(60)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return f"{sys.executable} program.py ."  # in tmp_path, whose own name may be longer than what is shown


def run(*commands: str, cwd: Path, **options):
    return run_items(commands, cwd=cwd, environ=os.environ, log=cwd / "log", **options)


def wait_for(*paths: Path) -> None:
    deadline = time.monotonic() + 60
    while not all(path.exists() and path.read_text() for path in paths):
        assert time.monotonic() < deadline, paths
        time.sleep(0.02)


def is_gone(path: Path) -> bool:
    try:
        return psutil.Process(int(path.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def stopping_when(path: Path, number: int) -> Stop:
    stop = Stop()

    def later() -> None:
        wait_for(path)
        stop.hear(number)

    threading.Thread(target=later, daemon=True).start()
    return stop


def test_a_timeout_is_term_and_124_with_what_was_done_so_far(tmp_path, program):
    outcome = run("true", f"{program} one", "true", cwd=tmp_path, timeout_s=1.5, grace_s=10)
    assert [item.status for item in outcome.items] == [0, 124, None]
    assert outcome.status == 124
    assert outcome.items[1].note == "not done after 1.5 s"
    assert 1 < outcome.items[1].seconds < 60
    assert (tmp_path / "one.SIGTERM").exists()
    assert is_gone(tmp_path / "one.pid")


def test_what_ignores_term_is_killed_after_the_grace(tmp_path, program):
    began = time.monotonic()
    outcome = run(f"{program} one deaf", cwd=tmp_path, timeout_s=1.5, grace_s=0.5)
    assert outcome.items[0].note == "not done after 1.5 s; killed 0.5 s later"
    assert outcome.status == 124
    assert time.monotonic() - began < 50  # it sleeps for 60
    assert is_gone(tmp_path / "one.pid")


def test_a_timeout_reaches_the_whole_tree_and_what_left_the_group(tmp_path, program):
    outcome = run(
        f"setsid {program} away &\n({program} below) & {program} one", cwd=tmp_path, timeout_s=2, grace_s=5
    )
    assert outcome.status == 124
    assert all(is_gone(tmp_path / f"{name}.pid") for name in ("away", "below", "one"))
    assert (tmp_path / "away.SIGTERM").exists()
    assert outcome.leaked == ""


def test_an_earlier_failure_stays_the_code_of_a_job_that_timed_out(tmp_path):
    assert run("bash -c 'exit 3'", "sleep 30", cwd=tmp_path, timeout_s=0.5).status == 3


@pytest.mark.parametrize(
    ("number", "heard", "code"),
    [(signal.SIGTERM, "SIGTERM", 143), (signal.SIGINT, "SIGINT", 130), (signal.SIGHUP, "SIGTERM", 129)],
)
def test_a_signal_to_the_runner_ends_the_tree(tmp_path, program, number, heard, code):
    stop = stopping_when(tmp_path / "one.pid", number)
    outcome = run(f"{program} one; true", "true", cwd=tmp_path, stop=stop)
    assert outcome.status == code
    assert [item.status for item in outcome.items] == [code, None]
    assert outcome.items[0].note == f"ended because of {signal.Signals(number).name}"
    assert (tmp_path / f"one.{heard}").exists()
    assert is_gone(tmp_path / "one.pid")


def test_a_shell_that_waits_for_nothing_but_itself_ends_too(tmp_path):
    outcome = run("while :; do :; done", cwd=tmp_path, timeout_s=0.5)
    assert outcome.status == 124


def test_a_shell_that_traps_term_is_killed(tmp_path):
    outcome = run("trap '' TERM", "while :; do sleep 0.1; done", cwd=tmp_path, timeout_s=0.5, grace_s=0.5)
    assert [item.status for item in outcome.items] == [0, 124]
    assert "killed" in outcome.items[1].note


def test_a_stop_before_the_start_runs_nothing_to_its_end(tmp_path):
    outcome = run("sleep 30", cwd=tmp_path, stop=Stop(signal.SIGTERM))
    assert outcome.status == 143


def test_processes_left_behind_are_named_and_ended_and_change_no_status(tmp_path, program):
    outcome = run(
        f"setsid {program} away & {program} beside &\nwhile [ ! -s away.pid ] || [ ! -s beside.pid ]; do sleep 0.1; done",
        "true",
        cwd=tmp_path,
    )
    assert outcome.status == 0
    for name in ("away", "beside"):
        assert f"pid {(tmp_path / f'{name}.pid').read_text()} (" in outcome.leaked
        assert f"program.py . {name}" in outcome.leaked
        assert is_gone(tmp_path / f"{name}.pid")


def test_what_was_there_before_is_not_ours(tmp_path):
    import subprocess

    with subprocess.Popen(["sleep", "60"]) as other:
        outcome = run("true", cwd=tmp_path)
        assert outcome.leaked == ""
        assert other.poll() is None
        other.kill()


def test_what_is_on_its_way_out_is_no_leak(tmp_path):
    assert run("sleep 0.4 &", cwd=tmp_path).leaked == ""


def test_a_secret_in_a_leaked_command_is_not_shown(tmp_path):
    outcome = run("setsid sleep 60 --api-key hf_abcdefghij 2>/dev/null & exec -a x sleep 0.1", cwd=tmp_path)
    assert "hf_abc" not in outcome.leaked


def test_signals_are_heard_and_given_back():
    before = signal.getsignal(signal.SIGTERM)
    with heard_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert (stop.number, stop.name) == (signal.SIGTERM, "SIGTERM")
    assert signal.getsignal(signal.SIGTERM) is before


def test_no_bash_is_a_guard(tmp_path):
    with pytest.raises(GuardError, match="bash is not on PATH"):
        run_items(("true",), cwd=tmp_path, environ={"PATH": str(tmp_path)})


def test_a_folder_that_is_gone_is_a_guard(tmp_path):
    with pytest.raises(GuardError, match=r"bash cannot be started in .*gone: No such file"):
        run_items(("true",), cwd=tmp_path / "gone", environ=os.environ)


def test_more_than_a_program_can_be_given_is_a_guard(tmp_path):
    with pytest.raises(GuardError, match="put them into a script"):
        run_items(("x" * 200_000,), cwd=tmp_path, environ=os.environ)
