"""The shell doors: short, and with a message of their own for what keeps them shut."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOORS = sorted(ROOT.glob("scripts/*.sh"))
LONGEST = 25


def door(script: Path, *arguments: str, path: Path | str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", str(script), *arguments],
        env={"PATH": str(path), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tools(tmp_path):
    """A PATH with the few programs that a door itself uses."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


@pytest.fixture
def clone(tmp_path):
    """A checkout without an environment."""
    shutil.copytree(
        ROOT / "scripts", tmp_path / "clone/scripts", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "clone")
    return tmp_path / "clone"


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/bash\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("script", DOORS, ids=lambda path: path.name)
def test_a_door_is_short_strict_and_executable(script):
    lines = script.read_text().splitlines()
    assert len(lines) <= LONGEST
    assert "set -euo pipefail" in lines
    assert os.access(script, os.X_OK)


def test_quickstart_says_that_there_is_no_python(clone, tools):
    done = door(clone / "scripts/quickstart.sh", path=tools)
    assert done.returncode == 4
    assert done.stderr == (
        "quickstart.sh: no 'python3' on PATH; install Python 3.11 or newer, or name one with OMNI_PYTHON\n"
    )


def test_quickstart_says_that_python_is_too_old(clone, tools):
    program(tools, "python3", 'if [ "$1" = --version ]; then echo Python 3.6.9; else exit 1; fi')
    done = door(clone / "scripts/quickstart.sh", path=tools)
    assert done.returncode == 4
    assert (
        done.stderr == "quickstart.sh: Python 3.6.9 is too old; name Python 3.11 or newer with OMNI_PYTHON\n"
    )


def test_quickstart_says_that_git_is_missing(clone, tools):
    (tools / "python3").symlink_to(Path(sys.executable).resolve())
    done = door(clone / "scripts/quickstart.sh", path=tools, HOME=os.environ.get("HOME", "/"))
    assert done.returncode == 4
    assert "quickstart: git is not on PATH; install it" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (clone / ".venv").exists()


def test_test_sh_sends_to_quickstart_first(clone, tools):
    done = door(clone / "scripts/test.sh", path=tools)
    assert done.returncode == 4
    assert "run scripts/quickstart.sh first" in done.stderr


def test_run_cov_split_without_omni_ci_is_a_guard(clone, tools):
    done = door(clone / "scripts/run_cov_split.sh", path=tools)
    assert done.returncode == 125
    assert "pip install 'pytest-omni[ci,cov]'" in done.stderr


def test_run_cov_split_passes_every_argument_as_it_came(clone, tools):
    program(tools, "omni-ci", r"printf '<%s>' \"$@\"; exit 37".replace(r"\"", '"'))
    done = door(clone / "scripts/run_cov_split.sh", "--model-id", "z", "--", "-m", "a and b", "", path=tools)
    assert done.stdout == "<cov><split><--model-id><z><--><-m><a and b><>"
    assert done.returncode == 37


@pytest.fixture
def installation(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("installation")


def test_the_stamp_changes_with_the_packaging_and_not_with_a_tools_settings(installation):
    before = installation.stamp(b"[project]\ndependencies = ['a']\n")
    assert before == installation.stamp(b"[project]\ndependencies = ['a']\n[tool.ruff]\nline-length = 1\n")
    assert before != installation.stamp(b"[project]\ndependencies = ['a', 'b']\n")
    assert json.loads(json.dumps(before)) == before


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_venv_is_named(installation, monkeypatch, module):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == module else object())
    with pytest.raises(installation.SetupError, match=rf"has no module {module}; install it .*-venv"):
        installation.check_tools()


@pytest.mark.parametrize(
    ("environ", "arguments", "said"),
    [
        ({}, [], "from pip's own index, because $OMNI_TORCH_INDEX is not set"),
        (
            {"OMNI_TORCH_INDEX": "https://wheels.example/cpu"},
            ["--index-url", "https://wheels.example/cpu"],
            "from https://wheels.example/cpu, because $OMNI_TORCH_INDEX says so",
        ),
    ],
)
def test_the_index_of_torch_is_said_with_its_reason(installation, capsys, environ, arguments, said):
    assert installation.index_arguments(environ) == arguments
    installation.say_index(environ)
    assert said in capsys.readouterr().out
