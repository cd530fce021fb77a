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
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module


@pytest.fixture
def installation(scripts):
    return scripts("installation")


@pytest.fixture
def made(installation, monkeypatch, tmp_path):
    """An environment that is a Python and a stamp; what would be run is listed instead."""
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    for name, path in {"VENV": "", "PYTHON": "bin/python", "STAMP": "installed.json"}.items():
        monkeypatch.setattr(installation, name, venv / path)
    monkeypatch.setattr(installation, "CONSTRAINTS", venv / "constraints.txt")
    ran: list[list[str]] = []
    monkeypatch.setattr(installation, "call", lambda command, **_: ran.append(list(command)))
    return venv, ran


def test_an_environment_with_the_right_stamp_is_left_alone(installation, made):
    venv, ran = made
    wanted = installation.stamp((ROOT / "pyproject.toml").read_bytes())
    (venv / "installed.json").write_text(json.dumps(wanted))
    assert installation.install() is False
    assert ran == []


@pytest.mark.parametrize("stamp", ["", '{"packaging": "0a', "\xff", "[]"])
def test_a_stamp_that_cannot_be_read_installs_again(installation, made, stamp):
    venv, ran = made
    (venv / "installed.json").write_bytes(stamp.encode("latin-1"))
    assert installation.install() is True
    # the same Python: nothing is made anew
    assert not [command for command in ran if "venv" in command]
    assert [command[-1] for command in ran][-1] == f".[{installation.EXTRAS}]"
    assert installation.is_current(
        venv / "installed.json", installation.stamp((ROOT / "pyproject.toml").read_bytes())
    )


def test_an_environment_of_another_python_is_made_anew(installation, made, capsys):
    venv, ran = made
    (venv / "bin/python").unlink()
    program(venv / "bin", "python", "echo 3.11.0rc1")
    assert installation.install() is True
    assert ran[0] == [sys.executable, "-m", "venv", "--clear", str(venv)]
    assert "the one here has Python 3.11.0rc1, and this is" in capsys.readouterr().out


def test_a_python_of_the_environment_that_does_not_run_is_said(installation, made):
    venv, _ = made
    (venv / "bin/python").unlink()
    (venv / "bin/python").write_text("no program")
    with pytest.raises(installation.SetupError, match=r"does not run; remove .*\.venv and try again"):
        installation.install()


def test_compat_says_in_one_line_what_it_could_not_make(scripts, monkeypatch, capsys, tmp_path):
    compat = scripts("compat")
    (tmp_path / "installed.json").write_text("{")

    def fail(_command, *, failed):
        raise compat.SetupError(failed)

    monkeypatch.setattr(compat, "STAMP", tmp_path / "installed.json")
    monkeypatch.setattr(compat, "call", fail)
    assert compat.main() == 4
    assert capsys.readouterr().err.startswith("compat: cannot make ")


@pytest.mark.parametrize(
    ("door", "where", "told"),
    [
        ("quickstart.main", "install", "quickstart: interrupted"),
        ("lanes.door", "chosen", "test.sh: interrupted"),
    ],
)
def test_an_interrupt_is_no_traceback(door, where, told):
    module = door.partition(".")[0]
    # the script as its door starts it, with Ctrl-C as its first event
    script = (
        f"import signal, sys; sys.argv[1:] = []; sys.path.insert(0, 'scripts'); import {module}\n"
        "def interrupt(*_): signal.raise_signal(signal.SIGINT)\n"
        f"{module}.{where} = interrupt\n"
        f"sys.exit({door}())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, f"{told}\n")


@pytest.fixture
def quickstart(scripts, monkeypatch, tmp_path):
    """The quickstart in a folder with two pipelines; the commands that it calls are listed and answered."""
    module = scripts("quickstart")
    for name in ("cuda/test-merge.yml", "cuda/test-ready.yml"):
        (tmp_path / ".buildkite" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".buildkite" / name).touch()
    (tmp_path / ".quickstart").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "last_commit", lambda: ["--base", "HEAD~1"])
    return module


@pytest.mark.parametrize(
    ("selected", "files", "said"),
    [
        ({"--base": ("test-ready",), "--all": ()}, ["cuda-test-ready.yml"], False),
        ({"--base": (), "--all": ("merge", "ready")}, ["cuda-test-merge.yml", "cuda-test-ready.yml"], True),
    ],
    ids=["one of two", "nothing"],
)
def test_quickstart_lists_only_pipelines_that_have_steps_and_always_shows_one(
    quickstart, monkeypatch, capsys, selected, files, said
):
    validated: list[str] = []
    monkeypatch.setattr(quickstart, "call", validated.extend)
    monkeypatch.setattr(
        quickstart,
        "omni_ci",
        lambda *command, **_: "steps:\n" if any(name in command[-1] for name in selected[command[1]]) else "",
    )
    made = quickstart.generate_pipelines()
    assert [path.name for path in made] == files
    assert all(path.read_text() for path in made)
    assert validated[-len(made) :] == [str(path) for path in made]
    assert ("these are the pipelines of --all" in capsys.readouterr().out) is said


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
