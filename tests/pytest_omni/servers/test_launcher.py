"""The launcher by itself, and one child behind it, without pytest around."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InfrastructureError
from omni_hardware.processes import Ending, is_alive, named, stop_trees, tagged
from pytest_omni.servers.child import LAUNCHER, TAG, Order, launch, new_tag
from pytest_omni.servers.launcher import Row, owned, rows
from pytest_omni.servers.starting import ServerError

process = pytest.mark.process
HANG_S = 60.0
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
# a grandchild below another parent, in a session and group of its own, deaf
STRAY = """
import os, subprocess, sys, time
code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
if os.fork() == 0:
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    os._exit(0)
os.wait()
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path):
    """Launch Python code; whatever the test does, nothing is left."""
    children = []

    def run(code: str, *, program: str = sys.executable, **env: str):
        order = Order([program, "-c", code], {**os.environ, **env}, tmp_path / f"{uuid.uuid4().hex}.log")
        children.append(launch(order, new_tag()))
        return children[-1]

    yield run
    for child in children:
        child.let_go()
        assert not child.owned()


def until(look) -> bool:
    deadline = time.monotonic() + HANG_S
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(seen)


def line(child) -> str:
    """The child's log once it holds a whole line: unbuffered, Python writes a line's end by itself."""
    assert until(lambda: child.order.log_path.read_text().endswith("\n"))
    return child.order.log_path.read_text()


@process
def test_the_child_leads_a_session_and_writes_to_its_log(start):
    code = "import os, sys; print(os.getpid(), os.getsid(0), os.getpgid(0), os.environ['A']); print('err', file=sys.stderr); sys.exit(3)"
    child = start(code, A="b")
    assert until(lambda: child.exit_code() == 3)
    assert child.order.log_path.read_text() == f"{child.pid} {child.pid} {child.pid} b\nerr\n"
    assert psutil.pid_exists(child.pid)  # not reaped: nobody else gets its pid meanwhile
    child.let_go()
    assert child.launcher.returncode == 3
    assert not psutil.pid_exists(child.pid)  # reaped by the launcher, also where PID 1 reaps nobody


@process
def test_a_signal_that_ended_the_child_is_passed_on(start):
    child = start("import os; os.kill(os.getpid(), 11)")
    assert until(lambda: child.exit_code() == -signal.SIGSEGV)
    child.let_go()
    assert child.launcher.returncode == -signal.SIGSEGV


@process
def test_a_signal_to_the_launcher_goes_to_the_child(start):
    child = start(
        "import signal, sys, time; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5)); print('up', flush=True); time.sleep(600)"
    )
    assert line(child) == "up\n"
    child.launcher.send_signal(signal.SIGUSR1)
    assert until(lambda: child.exit_code() == 5)


@process
def test_a_signal_is_passed_on_from_the_first_answer_on(start):
    for _ in range(5):
        child = start(SLEEP)
        child.launcher.send_signal(signal.SIGTERM)
        assert until(lambda child=child: child.exit_code() == -signal.SIGTERM)
        assert until(lambda child=child: not is_alive(child.root))


@process
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            ["/nowhere/serve"],
            "cannot run '/nowhere/serve': No such file or directory; the command was /nowhere/serve",
        ),
        (["no-such-program-here", "x"], "cannot run 'no-such-program-here': No such file or directory"),
        (["/bin/sh", "a\0"], "cannot run '/bin/sh': embedded null byte"),
        (["/etc/passwd"], "cannot run '/etc/passwd': Permission denied"),
    ],
)
def test_what_cannot_be_run_is_said(tmp_path, command, why):
    with pytest.raises(ServerError) as caught:
        launch(Order(command, dict(os.environ), tmp_path / "log"), new_tag())
    assert str(caught.value).startswith(why)


@process
def test_a_program_is_looked_for_in_the_childs_own_path(start, tmp_path):
    (tmp_path / "serve").symlink_to("/bin/sh")
    child = start("exit 4", program="serve", PATH=str(tmp_path))
    assert until(lambda: child.exit_code() == 4)


@process
@pytest.mark.parametrize("how", ["let go", "link closed", "launcher killed"])
def test_vllm_omni3683_a_grandchild_in_a_session_of_its_own_is_found(monkeypatch, start, how):
    monkeypatch.setattr(
        "omni_hardware.processes._AFTER_ROOT_S", 0.5
    )  # it is deaf, so this is waited for in vain
    child = start(STRAY)
    stray = psutil.Process(int(line(child)))
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        assert os.getsid(stray.pid) == stray.pid
        assert {child.pid, stray.pid} <= {row.pid for row in child.owned()}
        if how == "let go":
            assert stop_trees([child.root], child.owned, grace_s=HANG_S) is Ending.KILL
        elif how == "link closed":
            child._link.shutdown(socket.SHUT_RDWR)
        else:  # nothing but the tag tells now
            child.launcher.kill()
            child.launcher.wait()
            assert {row.pid for row in tagged(TAG, child.tag)} == {child.pid, stray.pid}
            assert child.exit_code() == -signal.SIGKILL
            stop_trees([child.root], child.owned, grace_s=HANG_S)
        assert until(lambda: not is_alive(stray) and not is_alive(child.root))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@process
@pytest.mark.parametrize("child_ends", ["by itself", "by our TERM"])
def test_what_a_server_left_behind_gets_a_term_before_the_kill(start, tmp_path, child_ends):
    """A worker in a session of its own, which saves its work on SIGTERM as coverage does; KILL would lose that."""
    saved = tmp_path / "saved"
    worker = (
        "import os, signal, sys, time\n"
        f"def save(*_): open({str(saved)!r}, 'w').write('all of it'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)\n"
    )
    end = {"by itself": "sys.exit(0)", "by our TERM": "time.sleep(600)"}[child_ends]
    child = start(
        "import subprocess, sys, time\n"
        f"left = subprocess.Popen([sys.executable, '-c', {worker!r}], start_new_session=True, stdout=subprocess.PIPE)\n"
        "print(left.stdout.readline().decode(), end='', flush=True)\n"
        f"{end}\n"
    )
    left = psutil.Process(int(line(child)))
    if child_ends == "by itself":
        assert until(lambda: child.exit_code() == 0)
    assert os.getsid(left.pid) == left.pid
    child.let_go()
    assert until(lambda: not is_alive(left))
    assert saved.read_text() == "all of it"


@process
def test_afd_plugin392_orphans_are_reaped_by_the_launcher(start):
    # PID 1 of a container may never reap them
    child = start(
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0: time.sleep(0.2); os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "print('up', flush=True); time.sleep(600)"
    )
    assert line(child) == "up\n"
    assert until(lambda: not psutil.Process(child.pid).children())
    assert until(lambda: [row.pid for row in psutil.Process(child.launcher.pid).children()] == [child.pid])


@process
def test_a_launcher_whose_pytest_died_before_asking_starts_nothing():
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-I", "-S", str(LAUNCHER), str(theirs.fileno()), str(os.getpid())]
        alone = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    ours.close()
    assert alone.wait(timeout=HANG_S) == 0


@process
def test_a_launcher_that_says_nothing_is_an_error_with_its_log(tmp_path, monkeypatch):
    broken = tmp_path / "launcher.py"
    broken.write_text("raise SystemExit('broken here')")
    monkeypatch.setattr("pytest_omni.servers.child.LAUNCHER", broken)
    with pytest.raises(
        ServerError, match=r"the launcher ended without a word; broken here; the command was x y"
    ):
        launch(Order(["x", "y"], {}, tmp_path / "log"), new_tag())


@process
def test_vllm_omni3207_servers_started_from_threads_have_their_own_environment(start):
    before = dict(os.environ)
    code = "import os, time; print(os.environ['WHO'], flush=True); time.sleep(600)"
    with ThreadPoolExecutor(8) as pool:
        children = list(pool.map(lambda number: start(code, WHO=f"number {number}"), range(8)))
    assert dict(os.environ) == before
    for number, child in enumerate(children):
        assert child.order.env["WHO"] == f"number {number}"
        assert line(child) == f"number {number}\n"


@process
def test_a_member_that_nobody_may_signal_is_named(monkeypatch, start):
    child = start(SLEEP)
    monkeypatch.setattr("omni_hardware.processes._AFTER_KILL_S", 0.1)

    def refuse(*_: object) -> None:
        raise psutil.AccessDenied(child.pid)

    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "send_signal", refuse)
        with pytest.raises(InfrastructureError, match=f"still alive after SIGKILL: pid {child.pid} "):
            stop_trees([child.root], child.owned, grace_s=0.1)
    assert named([child.root]).startswith(f"pid {child.pid} (")


def test_the_process_table_is_read_with_names_that_hold_anything(tmp_path):
    for pid, stat in {
        "7": b"7 (a) b) S 1 7 7 0",
        "8": b"8 (x) Z 7 7 7 0",
        "self": b"",
        "9": None,
    }.items():
        (tmp_path / pid).mkdir()
        if stat is not None:
            (tmp_path / pid / "stat").write_bytes(stat)
    found = sorted(rows(str(tmp_path)))
    assert found == [Row(7, 1, 7, 7, zombie=False), Row(8, 7, 7, 7, zombie=True)]
    assert list(rows(str(tmp_path / "nothing"))) == []


pids = st.integers(1, 12)
TABLES = st.lists(st.builds(Row, pids, pids, pids, pids, st.booleans()), unique_by=lambda row: row.pid)


@given(TABLES, st.frozensets(pids))
def test_what_is_owned_is_below_us_in_the_childs_session_or_tagged(table, marked):
    me, child = 100, 1
    found = set(owned(table, me=me, child=child, tagged=marked))
    by_pid = {row.pid: row for row in table}

    def is_below(row: Row) -> bool:
        seen: set[int] = set()
        while row.pid not in seen:
            if {row.pid, row.parent} & {me, child}:
                return True
            seen.add(row.pid)
            if row.parent not in by_pid:
                return False
            row = by_pid[row.parent]
        return False

    expected = {
        row.pid
        for row in table
        if not row.zombie and (is_below(row) or child in {row.group, row.session} or row.pid in marked)
    }
    assert found == expected


def test_the_launcher_needs_the_standard_library_only():
    code = (
        "import sys, runpy; before = set(sys.modules); sys.argv = ['launcher.py'];"
        f"exec(compile(open({str(LAUNCHER)!r}).read().replace('__main__', 'x'), 'launcher', 'exec'));"
        "print([name for name in set(sys.modules) - before if name.partition('.')[0] not in sys.stdlib_module_names])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
