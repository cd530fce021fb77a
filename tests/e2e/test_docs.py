"""The user guide works as written: its titled blocks are files, its console blocks are run, in order, in an empty folder."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/user_guide").glob("*.md"))
BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)

pytestmark = [pytest.mark.core_model, pytest.mark.cpu]


def script_of(page: str, folder: Path) -> str:
    """Return one bash script of the page's commands, each file written where the page shows it."""
    lines = ["set -euo pipefail"]
    for number, block in enumerate(BLOCK.finditer(page)):
        if block["title"]:
            written = folder / f".block-{number}"
            written.write_text(block["body"], encoding="utf-8")
            lines.append(f'mkdir -p "$(dirname {block["title"]})" && cp {written} {block["title"]}')
        elif block["language"] == "console":
            lines += [line.removeprefix("$ ") for line in block["body"].splitlines() if line.startswith("$ ")]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_pages_commands_work_in_order(page: Path, tmp_path: Path) -> None:
    if page.stem == "runtime" and shutil.which("curl") is None:
        pytest.skip("the page talks to the server with curl, which is not on this machine")
    work = tmp_path / "repository"
    work.mkdir()
    script = script_of(page.read_text(encoding="utf-8"), tmp_path)
    assert script.count("\n") > 2, f"{page.name} holds no command: the test would prove nothing"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))
    }
    # A file, not a pipe: the page leaves its server running, as a reader would, and a pipe would wait for it.
    log = tmp_path / "output.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-x", "-c", script],
            cwd=work,
            env=environment | {"PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
    assert status == 0, log.read_text(encoding="utf-8", errors="replace")
