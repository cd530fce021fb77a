from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_hardware.processes import Ending, descendants, is_alive, listeners, log_tail, stop

process = pytest.mark.process
HANG_S = 60.0


@pytest.fixture
def start(tmp_path):
    """Start Python code in a session of its own; the code prints one line when it is ready."""
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str, *, own_group: bool = True) -> tuple[subprocess.Popen[bytes], str]:
        child = subprocess.Popen(
            [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, start_new_session=own_group
        )
        started.append(child)
        return child, child.stdout.readline().decode().strip()

    yield run
    for child in started:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait(timeout=HANG_S)
        child.stdout.close()


SLEEP = "import time; print('up'); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)"
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-u", "-c", {code!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid)
time.sleep(600)
"""
LISTENS = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1])
time.sleep(600)
"""


def gone(pid: int) -> bool:
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        try:
            if not is_alive(psutil.Process(pid)):
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@process
def test_term_is_enough_for_most(start):
    child, _ = start(SLEEP)
    assert stop(child, grace_s=HANG_S) is Ending.TERM
    assert child.returncode == -signal.SIGTERM


@process
def test_a_deaf_process_is_killed(start):
    child, _ = start(DEAF)
    assert stop(child, grace_s=0.2) is Ending.KILL
    assert child.returncode == -signal.SIGKILL


@process
def test_nothing_to_stop_is_said(start):
    child, _ = start("print('bye')")
    child.wait(timeout=HANG_S)
    assert stop(child) is Ending.GONE
    assert stop(child.pid) is Ending.GONE


@process
def test_the_whole_tree_goes_and_a_stranger_stays(start):
    stranger, _ = start(SLEEP)
    child, grandchild = start(PARENT.format(code=SLEEP))
    assert stop(child, grace_s=HANG_S) is Ending.TERM
    assert gone(int(grandchild))
    assert stranger.poll() is None


@process
def test_vllm_omni3683_a_killed_root_leaves_no_grandchild(start):
    child, grandchild = start(PARENT.format(code=SLEEP))
    child.kill()
    child.wait(timeout=HANG_S)
    assert [p.pid for p in descendants(child.pid)] == [int(grandchild)]
    assert stop(child, grace_s=HANG_S) is Ending.TERM
    assert gone(int(grandchild))


@process
def test_a_deaf_grandchild_is_killed(start):
    child, grandchild = start(PARENT.format(code=DEAF))
    assert stop(child, grace_s=0.2) is Ending.KILL
    assert gone(int(grandchild))


@process
def test_root_gets_its_chance_before_its_children(start, tmp_path):
    order = tmp_path / "order"
    child_code = (
        "import signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(order)!r}, 'a').write('child '), sys.exit(0)))\n"
        "print('up')\ntime.sleep(600)"
    )
    root_code = (
        "import signal, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-u', '-c', {child_code!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), open({str(order)!r}, 'a').write('root '), sys.exit(0)))\n"
        "print('up')\ntime.sleep(600)"
    )
    child, _ = start(root_code)
    assert stop(child, grace_s=HANG_S) is Ending.TERM
    assert order.read_text() == "root child "


@process
def test_afd_plugin392_a_zombie_is_dead(start):
    # the parent never reaps its child, as a container's PID 1 may not
    child, zombie = start(PARENT.format(code="print('up')"))
    deadline = time.monotonic() + HANG_S
    while psutil.Process(int(zombie)).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(psutil.Process(int(zombie)))
    assert descendants(child.pid) == []
    assert stop(int(zombie)) is Ending.GONE


@process
def test_our_own_group_is_never_taken_for_the_childs(start):
    child, _ = start(SLEEP, own_group=False)
    sibling, _ = start(SLEEP, own_group=False)
    assert stop(child, grace_s=HANG_S) is Ending.TERM
    assert sibling.poll() is None
    assert os.getpid() not in {p.pid for p in descendants(os.getpgid(0))}


@process
def test_ports_are_those_of_the_tree_only(start):
    child, port = start(
        PARENT.format(code=LISTENS)
        .replace("child.stdout.readline()", "port = child.stdout.readline().decode().strip()")
        .replace("print(child.pid)", "print(port)")
    )
    with socket.create_server(("127.0.0.1", 0)) as ours:
        assert listeners(child.pid) == {("127.0.0.1", int(port))}
        assert ours.getsockname() in listeners(os.getpid())
    stop(child)
    assert listeners(child.pid) == set()


def test_log_tail_is_the_end_redacted_and_printable(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(
        b"first\n" * 1000
        + b"  1%\r 99%\r100%\r\nHF_TOKEN=hf_abcdefghijkl\n\x1b[31mdied\xff\x1b[0m swordfish\n\n"
    )
    tail = log_tail(log, 4, secrets=["swordfish"])
    assert tail == "first\n100%\nHF_TOKEN=[redacted]\n[31mdied\ufffd[0m [redacted]"
    assert log_tail(tmp_path / "absent") == ""
    assert log_tail(tmp_path) == ""


@settings(max_examples=50)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=30), max_size=20),
    st.integers(1, 25),
)
def test_log_tail_returns_at_most_the_lines_asked_for(tmp_path_factory, lines, count):
    log = tmp_path_factory.getbasetemp() / "tail.log"
    log.write_text("\n".join(lines), encoding="utf-8")
    assert len(log_tail(log, count).split("\n")) <= count
