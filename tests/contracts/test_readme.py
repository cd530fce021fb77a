"""The README's transcripts are what their commands print, here and now."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRANSCRIPT = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\bin \d+\.\d+s\b")
# what the surroundings of this run would say in a transcript
FOREIGN = ("BUILDKITE", "OMNI_", "PYTEST_", "CI", "BUILD_NUMBER")


def test_the_transcripts_are_current() -> None:
    blocks = TRANSCRIPT.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
        assert commands
        assert timeless(block) == "".join(
            f"$ {command}\n{timeless(printed(command))}" for command in commands
        )


def timeless(text: str) -> str:
    return SECONDS.sub("in …s", text)


def printed(command: str) -> str:
    """Return what *command* writes in the repository, run from the environment under test, blank lines left out."""
    program, *arguments = shlex.split(command)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=ROOT,
        env=environ | {"COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return re.sub(r"\n\n+", "\n", done.stdout)
