"""`omni-ci init`, and that what it writes already plans, generates and passes every check."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import yaml

from omni_ci.policy import default_policy, load_policy
from omni_ci.starter import starter_files, starter_policy

WRITTEN = [
    ".buildkite/cuda/test-ready.yml",
    ".buildkite/presets.yml",
    ".buildkite/dependencies.yml",
    ".buildkite/policy.yml",
]


@pytest.fixture
def fresh(scratch: Any) -> Any:
    """A repository without a .buildkite folder, with one commit."""
    shutil.rmtree(scratch.root / ".buildkite")
    shutil.rmtree(scratch.root / ".git")
    scratch.git("init", "--quiet", "-b", "main")
    scratch.commit()
    return scratch


def test_a_fresh_repository_plans_at_once(fresh: Any) -> None:
    ran = fresh.run("init")
    assert ran.code == 0, ran.err
    assert [line.removeprefix("wrote ") for line in ran.out.splitlines()[:-1]] == WRITTEN
    planned = fresh.run("plan")
    assert planned.code == 0, planned.err
    assert "2 of 2 steps run" in planned.out
    made = fresh.run("generate", ".buildkite/cuda/test-ready.yml", "--all")
    assert made.code == 0, made.err
    assert len(yaml.safe_load(made.out)["steps"]) == 2
    assert "4 presets" not in made.err
    assert fresh.run("presets").code == 0


def test_nothing_is_overwritten(fresh: Any) -> None:
    fresh.write({".buildkite/presets.yml": "mine\n"})
    ran = fresh.run("init")
    assert ran.code == 2
    assert ".buildkite/presets.yml exists already; nothing was written" in ran.err
    assert not (fresh.root / ".buildkite/policy.yml").exists()
    assert (fresh.root / ".buildkite/presets.yml").read_text(encoding="utf-8") == "mine\n"


def test_it_writes_at_the_root_from_a_folder_below(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fresh.root / "src")
    fresh.run("init")
    assert (fresh.root / ".buildkite/policy.yml").exists()


def test_it_works_outside_a_repository(fresh: Any) -> None:
    shutil.rmtree(fresh.root / ".git")
    assert fresh.run("init").code == 0
    assert fresh.run("plan").code == 0


def test_the_starters_policy_is_the_default_and_stays_so() -> None:
    text = starter_policy()
    assert load_policy(text, name="policy.yml").digest == default_policy().digest
    uncommented = [line.removeprefix("# ") for line in text.splitlines()]
    assert "main_branch: main" in uncommented


def test_every_file_is_commented() -> None:
    assert all(text.startswith("#") for text in starter_files().values())
