"""Run the e2e pair on a real accelerator, and the runtime's own tests on that machine's Python; write down on what.

    python benchmarks/gpu_foundation.py --platform cuda --json benchmarks/results/foundation-<device>.json

The second run proves the version ranges: another Python, torch and transformers than the CPU lanes use. The exit
status is pytest's, the first that is not 0.
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
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "diffusers", "transformers", "pydantic", "fastapi", "uvicorn", "pytest")
LISTED_AT_MOST = 50  # of a larger run only what did not pass is listed
E2E = ("tests/e2e/offline_inference", "tests/e2e/online_serving")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="cuda", choices=["cuda", "rocm"])
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    facts = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(0),
        "devices": torch.cuda.device_count(),
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "packages": {name: version(name) for name in PACKAGES},
    }
    runs = [
        pytest_run("e2e pair on the card", *E2E, "-m", f"core_model and {options.platform}"),
        pytest_run("runtime on the CPU", "tests/omni", "-m", "not process"),
    ]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"schema": 1, **facts, "runs": runs}, indent=1) + "\n", encoding="utf-8"
    )
    print(json.dumps(facts, indent=1))
    for run in runs:
        print(f"\n{run['what']}: exit {run['exit']}, {run['counts']}, {run['seconds']} s")
        for case in run["cases"]:
            print(f"  {case['outcome']:8} {case['seconds']:7.2f} s  {case['test']}")
    return next((run["exit"] for run in runs if run["exit"]), 0)


def pytest_run(what: str, *arguments: str) -> dict:
    """Return one pytest run's exit status, counts and cases."""
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "junit.xml"
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", *arguments, f"--junitxml={junit}"]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        seconds = round(time.monotonic() - start, 1)
        cases = [_case(case) for case in ET.parse(junit).iter("testcase")] if junit.is_file() else []
    outcomes = [case["outcome"] for case in cases]
    counts = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    told = cases if len(cases) <= LISTED_AT_MOST else [case for case in cases if case["outcome"] != "passed"]
    return {"what": what, "exit": status, "seconds": seconds, "counts": counts, "cases": told}


def _case(case: ET.Element) -> dict:
    bad = [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
    name = f"{case.get('classname')}::{case.get('name')}"
    return {
        "test": name,
        "seconds": round(float(case.get("time", 0)), 2),
        "outcome": bad[0] if bad else "passed",
    }


if __name__ == "__main__":
    sys.exit(main())
