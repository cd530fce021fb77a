"""What our command lines and a pytest run import, and that a foreign `omni` is in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "diffusers", "transformers", "vllm", "flashinfer"}
PIPELINES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(".buildkite/*/test-*.yml"))


def run(*command: str, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def imported(tmp_path_factory):
    """What a command imported: what the interpreter timed, and what it held when it ended."""
    folder = tmp_path_factory.mktemp("sitecustomize")
    # -X importtime does not see what importlib.import_module is given, so the table at the end is read as well
    (folder / "sitecustomize.py").write_text(
        "import atexit, pathlib, sys\n"
        f"held = pathlib.Path({str(folder / 'held.txt')!r})\n"
        "atexit.register(lambda: held.write_text('\\n'.join(sys.modules)))\n"
    )

    def call(*command: str, cwd: Path = ROOT) -> set[str]:
        done = run("-X", "importtime", *command, cwd=cwd, PYTHONPATH=str(folder))
        assert done.returncode == 0, done.stderr[-2000:]
        timed = {
            line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line
        }
        return timed | set((folder / "held.txt").read_text().splitlines())

    return call


@pytest.fixture
def armed_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.omni]\n")
    (tmp_path / "test_maths.py").write_text(
        "import pytest\n\n@pytest.mark.core_model\n@pytest.mark.cpu\ndef test_x():\n    pass\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("command", "reaches"),
    [
        (("-m", "omni_ci", "plan", "--all"), "omni_ci.commands.plan"),
        (("-m", "omni_ci", "generate", "--all", *PIPELINES[:1]), "omni_ci.commands.generate"),
        (("-m", "omni", "--help"), "omni.cli"),
        (("-c", "import omni.config.attention, omni.errors, omni.models.sizes"), "omni.config"),
    ],
)
def test_no_torch_where_none_is_needed(imported, command, reaches):
    modules = imported(*command)
    assert reaches in modules
    assert not {module.split(".")[0] for module in modules} & HEAVY


def test_no_torch_in_a_torch_free_pytest_run(imported, armed_project):
    modules = imported(
        "-m", "pytest", "-q", "--strict-markers", "-m", "core_model and cpu", cwd=armed_project
    )
    assert "pytest_omni.plugin" in modules
    assert not {module.split(".")[0] for module in modules} & {*HEAVY, "omni", "fastapi", "pydantic"}


@pytest.fixture
def foreign(tmp_path_factory):
    """Another project's `omni` package, which fails for whoever imports it."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "omni").mkdir()
    (folder / "omni/__init__.py").write_text("raise RuntimeError('somebody imported the foreign omni')\n")
    return str(folder)


def test_a_foreign_omni_breaks_neither_plugin_nor_orchestrator(foreign, armed_project):
    # -P: not even the folder we stand in comes before it
    assert run("-P", "-c", "import omni", PYTHONPATH=foreign).returncode == 1
    tested = run("-P", "-m", "pytest", "-q", "--strict-markers", cwd=armed_project, PYTHONPATH=foreign)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    planned = run("-P", "-m", "omni_ci", "plan", "--all", PYTHONPATH=foreign)
    assert planned.returncode == 0, planned.stderr
