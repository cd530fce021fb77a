from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.probes import tools
from omni_hardware.probes.tools import Output, ProbeError, failure, json_in, number, run, text

HANG_GUARD_S = 60.0
SLEEPS_S = 120


@pytest.fixture
def tool(tmp_path):
    """Make a program of a few shell lines on a PATH of its own; returns the environment to call it with."""

    def make(name: str, lines: str) -> dict[str, str]:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    return make


def test_what_a_tool_prints(tool):
    environ = tool("amd-smi", 'echo "out $1"; echo err >&2; exit 3')
    output = run(["amd-smi", "list"], environ, limit_s=HANG_GUARD_S)
    assert (output.code, output.out, output.err) == (3, "out list\n", "err\n")
    assert not output.is_missing
    assert run(["amd-smi"], {"PATH": "/nowhere"}, limit_s=HANG_GUARD_S).is_missing
    broken = tool("xpu-smi", "")
    Path(broken["PATH"].split(":")[0], "xpu-smi").write_text("#!/nowhere/python\n")
    assert run(["xpu-smi"], broken, limit_s=HANG_GUARD_S).code == 126


@pytest.mark.process
@pytest.mark.parametrize("leads_group", [True, False])
def test_a_tool_that_no_signal_reaches_is_abandoned(tool, tmp_path, monkeypatch, leads_group):
    """amd-smi in a driver call: neither it nor its pipes may be waited for."""
    pids = tmp_path / "pids"
    environ = tool("amd-smi", f"sleep {SLEEPS_S} & echo $$ $! > {pids}; wait")
    for name in ("kill", "killpg"):
        monkeypatch.setattr(tools.os, name, lambda _pid, _number: None)
    started = time.monotonic()
    output = run(["amd-smi"], environ, limit_s=1.0, leads_group=leads_group)
    assert time.monotonic() - started < HANG_GUARD_S
    assert output.abandoned
    assert str(failure(["amd-smi"], output)) == "amd-smi gave no answer in 1 s"
    monkeypatch.undo()
    for pid in pids.read_text().split():
        os.kill(int(pid), signal.SIGKILL)  # both were still there


@pytest.mark.process
def test_a_tool_that_overruns_is_killed_with_its_group(tool, tmp_path):
    pids = tmp_path / "pids"
    environ = tool("amd-smi", f"sleep {SLEEPS_S} & echo $! > {pids}; wait")
    assert run(["amd-smi"], environ, limit_s=1.0, leads_group=True).abandoned
    pid = int(pids.read_text())
    deadline = time.monotonic() + HANG_GUARD_S
    while time.monotonic() < deadline and lives(pid):
        time.sleep(0.02)
    assert not lives(pid)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_failure_is_one_line_that_names_the_command():
    output = Output(7, "a\x1b[1mb\n", "c\n" * 400)
    said = str(failure(["rocm-smi", "--json"], output))
    assert said.startswith("rocm-smi --json: exit 7: a[1mb c c ")
    assert len(said) < 400
    assert str(failure(["x"], Output(1))) == "x: exit 1: it printed nothing"


def test_json_after_warnings():
    assert json_in(["x"], Output(0, 'WARNING {\n{"a": [1]}\ndone')) == {"a": [1]}
    assert json_in(["x"], Output(0, "[WARN] no\n[]\n")) == []
    for out in ("", "text", "{", "[" * 100_000):
        with pytest.raises(ProbeError):
            json_in(["x"], Output(0, out))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (12, 12),
        ("0x1f", 31),
        ("12.9", 12),
        (" 7 ", 7),
        ({"value": 5, "unit": "MB"}, 5),
        ("N/A", None),
        ("[N/A]", None),
        ("inf", None),
        (True, None),
        (None, None),
        ([], None),
        ({"unit": "MB"}, None),
    ],
)
def test_numbers(value, found):
    assert number(value) == found


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_anything_is_a_number_or_none(value):
    assert number(value) is None or isinstance(number(value), int)
    assert isinstance(text(value), str)
