"""Run the plugin's own tests on a real card and write down on what: inventory, visibility, memory, servers, strict.

    python benchmarks/gpu_plugin.py --json benchmarks/results/plugin-<device>.json

The exit status is pytest's. With two cards the two-card tests run too; with one they are skipped, and said.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "diffusers", "transformers", "pytest", "pytest-xdist", "nvidia-ml-py", "psutil")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["tests/gpu", "-v", "-rs", "-m", "cuda", "--omni-report", str(report)]
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "pytest", *command], cwd=ROOT, check=False)
        seconds = round(time.monotonic() - started, 1)
        told = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
    result = {
        "schema": 1,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "device": _devices(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "command": ["pytest", *command[:-1], "FILE"],
        "exit": done.returncode,
        "seconds": seconds,
        "report": told,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return done.returncode


def _devices() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
