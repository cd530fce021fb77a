"""The oldest supported neighbours: pytest 8.4 in an environment without torch, diffusers 0.39 laid over ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from installation import stamp

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-compat"
PYTHON = VENV / "bin" / "python"
OVERLAY = VENV / "overlay"
STAMP = VENV / "installed.json"
OLD_PYTEST = "pytest==8.4.*"
OLD_DIFFUSERS = "diffusers==0.39.0"
TORCH_FREE = (
    *("tests/omni_hardware", "tests/omni_ci", "tests/omni/config", "tests/pytest_omni"),
    *("-m", "not process", "-q", "-n2"),
)
DIFFUSERS = ("tests/omni/attention", "tests/e2e/offline_inference/test_equality.py", "-m", "not gpu", "-q")


def main() -> int:
    """Run both; return the first exit code that is not 0."""
    wanted = [stamp((ROOT / "pyproject.toml").read_bytes()), OLD_PYTEST, OLD_DIFFUSERS]
    if not STAMP.is_file() or json.loads(STAMP.read_text(encoding="utf-8")) != wanted:
        install()
        STAMP.write_text(json.dumps(wanted), encoding="utf-8")
    check()
    codes = [
        run([str(PYTHON), "-m", "pytest", *TORCH_FREE]),
        run([sys.executable, "-m", "pytest", *DIFFUSERS], {"PYTHONPATH": str(OVERLAY)}),
    ]
    return next((code for code in codes if code), 0)


def install() -> None:
    """Make the torch-free environment and the folder that is laid over ours."""
    run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    run([*pip, OLD_PYTEST, "-e", ".[dev]"], check=True)
    run([*pip, "--no-deps", "--target", str(OVERLAY), OLD_DIFFUSERS], check=True)


def check() -> None:
    """End the process with a message when one of the two environments is not what it is for."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        sys.exit(f"compat: {VENV} has torch, so it proves nothing; remove the folder and run again")
    script = "import importlib.metadata as m; print('diffusers==' + m.version('diffusers'))"
    environ = {**os.environ, "PYTHONPATH": str(OVERLAY)}
    found = subprocess.run(
        [sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    if found.stdout.strip() != OLD_DIFFUSERS:
        sys.exit(
            f"compat: {OVERLAY} brings {found.stdout.strip()}, not {OLD_DIFFUSERS}; remove {VENV}, run again"
        )


def run(command: Sequence[str], environ: Mapping[str, str] | None = None, *, check: bool = False) -> int:
    """Run *command* in the repository, with *environ* added, and return its exit code."""
    print("$", " ".join(command).replace(f"{ROOT}/", ""), flush=True)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **(environ or {})}, check=check).returncode


if __name__ == "__main__":
    sys.exit(main())
