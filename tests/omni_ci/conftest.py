"""A scratch repository, and the command line run in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_ci.cli import main

PRESETS = """\
schema: 1
skus:
  l4:
    platform: cuda
    sku: L4
    template: k8s-spec
    cards: [1, 2, 4]
    queue: l4-k8s
    resource: nvidia.com/gpu
    per_card: {cpu: 10, memory: 40Gi, shm: 24Gi}
"""
PIPELINE = """\
steps:
  - group: GPU
    steps:
      - label: Engine
        key: engine
        mirror_hardwares: l4_1
        timeout_in_minutes: 30
        source_file_dependencies: [src/engine/]
        commands: [pytest tests/test_engine.py]
  - label: Docs
    key: docs
    agents: {queue: cpu}
    timeout_in_minutes: 5
    source_file_dependencies: [docs/]
    commands: [make docs]
"""
FILES = {
    ".buildkite/presets.yml": PRESETS,
    ".buildkite/cuda/test-ready.yml": PIPELINE,
    "src/engine/core.py": "x = 1\n",
    "docs/index.md": "# Hello\n",
    "tests/test_engine.py": "def test_one(): pass\n",
}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass
class Scratch:
    """A git repository in which `omni-ci` can be run."""

    root: Path
    run: Callable[..., Ran]

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @staticmethod
    def presets_of(sku: str) -> str:
        """Return the presets file with its one row called *sku*."""
        return PRESETS.replace("l4:", f"{sku}:")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r}"
        self.write({name: text.replace(old, new)})

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str] | None = None) -> str:
        self.write(files or {})
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Scratch:
    """A repository with two steps, one commit, and nothing of Buildkite in the environment."""
    for name in [name for name in os.environ if name.startswith(("BUILDKITE", "GIT_"))]:
        monkeypatch.delenv(name)
    identity = {"NAME": "someone", "EMAIL": "someone@example.com"}
    for role in ("AUTHOR", "COMMITTER"):
        for key, value in identity.items():
            monkeypatch.setenv(f"GIT_{role}_{key}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    root = tmp_path / "repo"
    root.mkdir()
    monkeypatch.chdir(root)

    def run(*tokens: str) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(tokens)
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    made = Scratch(root, run)
    made.git("init", "--quiet", "-b", "main")
    made.commit(FILES)
    return made
