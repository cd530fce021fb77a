"""A program that hangs is ended with everything it started; real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from omni_ci.repository import git, programs
from omni_ci.repository.git import GitError, Repository
from omni_ci.repository.programs import finish

pytestmark = pytest.mark.process

# A shell, its child and a grandchild that none of them waits for; each writes down its process id.
HANGS = """\
#!/bin/sh
(sh -c 'echo $$ >> "$PIDS"; sleep 1001' &)
sleep 1002 &
echo $! >> "$PIDS"
echo $$ >> "$PIDS"
wait
"""


@pytest.fixture
def hanging(tmp_path: Path) -> tuple[Path, Path]:
    """A program that never ends, and the file in which it and its children write their process ids."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(HANGS)
    program.chmod(0o755)
    return program, tmp_path / "pids"


def written(pids: Path, count: int = 3) -> list[int]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = pids.read_text().split() if pids.exists() else []
        if len(found) == count:
            return [int(one) for one in found]
        time.sleep(0.01)
    raise AssertionError(f"{pids} does not hold {count} process ids")


def living(pids: list[int]) -> list[int]:
    """Return those that still run though they had their time."""
    until = time.monotonic() + 10
    while time.monotonic() < until and any(map(runs, pids)):
        time.sleep(0.01)
    return [pid for pid in pids if runs(pid)]


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_it_wrote_and_how_it_ended() -> None:
    done = finish(
        ["sh", "-c", "cat; echo no >&2; exit 3"], seconds=30, environ=dict(os.environ), text="given"
    )
    assert (done.code, done.out, done.err) == (3, b"given", b"no\n")


def test_a_program_that_overruns_is_ended_with_its_children(hanging: tuple[Path, Path]) -> None:
    program, pids = hanging
    with pytest.raises(subprocess.TimeoutExpired):
        finish([str(program)], seconds=1, environ={**os.environ, "PIDS": str(pids)})
    assert living(written(pids)) == []


def test_a_git_that_hangs_leaves_nothing_behind(
    hanging: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, pids = hanging
    monkeypatch.setenv("PIDS", str(pids))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(git, "_SECONDS", 1)
    with pytest.raises(GitError, match="git rev-parse did not finish within 1 s"):
        Repository.around(tmp_path)
    assert living(written(pids)) == []


def test_an_interrupt_ends_it_too(hanging: tuple[Path, Path]) -> None:
    program, pids = hanging
    source = (
        f"import os\nfrom {programs.__name__} import finish\n"
        f"finish([{str(program)!r}], seconds=60, environ=dict(os.environ))\n"
    )
    ours = subprocess.Popen(
        [sys.executable, "-c", source], env={**os.environ, "PIDS": str(pids)}, stderr=subprocess.DEVNULL
    )
    found = written(pids)
    ours.send_signal(signal.SIGINT)
    assert ours.wait(timeout=30) != 0
    assert living(found) == []


def test_a_child_that_stays_behind_on_purpose_stays(tmp_path: Path) -> None:
    """Git's own upkeep goes on after the command that started it."""
    pids = tmp_path / "pids"
    script = '(sleep 1003 & echo $! > "$PIDS")'
    assert finish(["sh", "-c", script], seconds=30, environ={**os.environ, "PIDS": str(pids)}).code == 0
    (pid,) = written(pids, 1)
    try:
        assert runs(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
