"""The README's transcript is what its commands print, here and now."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRANSCRIPT = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_transcript_is_current() -> None:
    block = TRANSCRIPT.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert block is not None
    commands = [line.removeprefix("$ ") for line in block[1].splitlines() if line.startswith("$ ")]
    assert commands
    assert block[1] == "".join(f"$ {command}\n{printed(command)}" for command in commands)


def printed(command: str) -> str:
    """Return what *command* writes in the repository, run from the environment under test."""
    program, *arguments = shlex.split(command)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BUILDKITE")}
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout
