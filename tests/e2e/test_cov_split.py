"""The coverage pilot of this repository, on the CPU: what each half's report really covers."""

from __future__ import annotations

import ast
import gzip
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PILOT = "tests/e2e/{}/test_z_image.py"

pytestmark = [pytest.mark.core_model, pytest.mark.diffusion, pytest.mark.cpu]


def test_the_online_report_holds_the_request_handler_and_the_engine(
    tiny_z_image: Path, tmp_path: Path
) -> None:
    halves = ["--offline", PILOT.format("offline_inference"), "--online", PILOT.format("online_serving")]
    done = subprocess.run(
        [
            *(ROOT / "scripts/run_cov_split.sh", "--model-id", "z_image", *halves, "--reports", tmp_path),
            *("--", "-q", "-m", "core_model and cpu"),
        ],
        cwd=ROOT,
        env=outside_buildkite() | {"OMNI_TINY_MODELS": str(tiny_z_image.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    offline, online = (
        lines_hit(tmp_path / f"coverage-z_image-{mode}-local.xml.gz") for mode in ("offline", "online")
    )
    # Inside the functions: an import alone covers their `def` lines.
    assert body_of("serving/images.py", "create") & online["serving/images.py"]
    for report in (offline, online):
        assert body_of("engine/engine.py", "_draw") & report["engine/engine.py"]
    assert not offline.get("serving/images.py")


def outside_buildkite() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BUILDKITE", "COV", "PYTEST_"))
    }
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def lines_hit(report: Path) -> dict[str, set[int]]:
    root = ET.fromstring(gzip.decompress(report.read_bytes()))
    return {
        str(entry.get("filename")).removeprefix("omni/"): {
            int(line.get("number", 0)) for line in entry.iter("line") if line.get("hits") != "0"
        }
        for entry in root.iter("class")
    }


def body_of(module: str, function: str) -> set[int]:
    tree = ast.parse((ROOT / "omni" / module).read_text(encoding="utf-8"))
    found = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
    )
    return set(range(found.body[0].lineno, (found.end_lineno or 0) + 1))
