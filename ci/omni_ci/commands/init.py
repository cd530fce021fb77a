"""`omni-ci init`: a commented `.buildkite` folder that already plans."""

from __future__ import annotations

from pathlib import Path

from omni_ci.planning import repository_root
from omni_ci.starter import write_starter


def init() -> int:
    """Write a commented starter .buildkite folder into this repository; nothing is overwritten."""
    root = repository_root(Path.cwd())
    for path in write_starter(root):
        print(f"wrote {path.relative_to(root)}")
    print(
        "Next: `omni-ci plan` shows what a change would run, `omni-ci generate FILE` the pipeline it makes."
    )
    return 0
