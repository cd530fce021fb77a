"""The oldest supported neighbours: pytest 8.4 in an environment without torch, diffusers 0.39 laid over ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from installation import SetupError, call, is_current, stamp

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-compat"
PYTHON = VENV / "bin" / "python"
OVERLAY = VENV / "overlay"
STAMP = VENV / "installed.json"
OLD_PYTEST = "pytest==8.4.*"
OLD_DIFFUSERS = "diffusers==0.39.0"
# Of the orchestrator, what runs pytest; the rest does not know which one is installed.
TORCH_FREE = (
    *("tests/omni_hardware", "tests/omni/config", "tests/pytest_omni"),
    *("tests/omni_ci/commands/test_cov.py", "tests/omni_ci/commands/test_cov_plain.py"),
    *("-m", "not process", "-q", "-n2"),
)
DIFFUSERS = ("tests/omni/attention", "tests/e2e/offline_inference/test_equality.py", "-m", "not gpu", "-q")


def main() -> int:
    """Run both; return the first exit code that is not 0, 4 when an environment could not be made."""
    wanted = [stamp((ROOT / "pyproject.toml").read_bytes()), OLD_PYTEST, OLD_DIFFUSERS]
    try:
        if not is_current(STAMP, wanted):
            install()
            STAMP.write_text(json.dumps(wanted), encoding="utf-8")
        check()
    except SetupError as error:
        print(f"compat: {error}", file=sys.stderr)
        return 4
    codes = [
        run([str(PYTHON), "-m", "pytest", *TORCH_FREE]),
        run([sys.executable, "-m", "pytest", *DIFFUSERS], {"PYTHONPATH": str(OVERLAY)}),
    ]
    return next((code for code in codes if code), 0)


def install() -> None:
    """Make the torch-free environment and the folder that is laid over ours; raises SetupError."""
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        [*pip, OLD_PYTEST, "-e", ".[dev]"],
        [*pip, "--no-deps", "--target", str(OVERLAY), OLD_DIFFUSERS],
    ):
        show(command)
        call(command, failed=f"cannot make {VENV}; the message stands above")


def check() -> None:
    """Raise SetupError when one of the two environments is not what it is for."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        raise SetupError(f"{VENV} has torch, so it proves nothing; remove the folder and run again")
    script = "import importlib.metadata as m; print('diffusers==' + m.version('diffusers'))"
    environ = {**os.environ, "PYTHONPATH": str(OVERLAY)}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout.strip()
    if found != OLD_DIFFUSERS:
        raise SetupError(
            f"{OVERLAY} brings {found or 'no diffusers'}, not {OLD_DIFFUSERS}; remove {VENV}, run again"
        )


def run(command: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """Run *command* in the repository, with *environ* added, and return its exit code."""
    show(command)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **(environ or {})}, check=False).returncode


def show(command: Sequence[str]) -> None:
    """Print *command*, paths as seen from the repository."""
    print("$", " ".join(command).replace(f"{ROOT}/", ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())
