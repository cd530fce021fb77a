"""Counting with tools and a torch that are scripts on PATH."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from omni_ci.runner.counting import counted
from omni_ci.runner.platforms import platform_of

TORCH = """\
class version: hip = {hip!r}; cuda = None
__version__ = "2.13.0"
class cuda:
    device_count = staticmethod(lambda: {count})
"""
NPU_SMI = "#!/bin/sh\necho broken >&2\nexit 3\n"


@pytest.fixture
def machine(tmp_path):
    """A PATH with a Python and nothing else, and a root without device nodes."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "root").mkdir()
    python = tmp_path / "bin/python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    (tmp_path / "bin/sh").symlink_to(shutil.which("sh"))
    return tmp_path


def ask(machine: Path, name: str | None, **environ: str):
    environ = {"PATH": str(machine / "bin"), "PYTHONPATH": str(machine), **environ}
    return counted(name, platform_of(name), environ, root=machine / "root")


def test_without_a_tool_and_torch_nobody_answers(machine):
    assert ask(machine, "rocm") == []


def test_torch_is_asked_for_its_build_and_its_devices(machine):
    (machine / "torch.py").write_text(TORCH.format(hip="6.4", count=2))
    (answer,) = ask(machine, "rocm")
    assert (answer.who, answer.count, answer.problem) == ("torch 2.13.0", 2, "")


def test_a_torch_of_another_platform_sees_none_and_says_why(machine):
    (machine / "torch.py").write_text(TORCH.format(hip=None, count=2))
    (answer,) = ask(machine, "rocm")
    assert (answer.count, answer.sight) == (0, "this build of it is not for rocm")


def test_a_torch_that_does_not_import_is_a_problem(machine):
    (machine / "torch.py").write_text("raise ImportError('libamdhip64.so.6: cannot open')\n")
    (answer,) = ask(machine, "rocm")
    assert "ended with 1: ImportError: libamdhip64.so.6: cannot open" in answer.problem


def test_a_tool_that_fails_is_a_problem_and_never_no_devices(machine):
    (machine / "bin/npu-smi").write_text(NPU_SMI)
    (machine / "bin/npu-smi").chmod(0o755)
    answer = ask(machine, "npu")[0]
    assert answer.count is None
    assert answer.who == "npu-smi"
    assert "broken" in answer.problem
