"""`omni-ci bootstrap`, in a real repository and with an agent that is a shell script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

FILE = ".buildkite/cuda/bootstrap-upload-steps.yml"
TEXT = """\
steps:
  - label: ":docker: Image"
    key: image-build
    timeout_in_minutes: 60
    commands: [bash .buildkite/cuda/scripts/build-image.sh]
    agents: {queue: cpu}
  - label: Upload ready
    key: upload-ready-pipeline
    depends_on: image-build
    timeout_in_minutes: 10
    commands: [omni-ci upload $$OMNI_CI_SWEEP .buildkite/cuda/test-ready.yml]
    agents: {queue: cpu}
  - label: Upload merge
    key: upload-merge-pipeline
    depends_on: image-build
    timeout_in_minutes: 10
    commands: [omni-ci upload $$OMNI_CI_SWEEP .buildkite/cuda/test-merge.yml]
    agents: {queue: cpu}
"""
AGENT = """#!/bin/sh
echo "$*" >> {log}
case "$1" in annotate) cat > {annotation} ;; esac
"""


@pytest.fixture
def booted(scratch: Any) -> Any:
    scratch.commit({FILE: TEXT})
    return scratch


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, booted: Any) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "buildkite-agent"
    text = AGENT.format(log=tmp_path / "agent.log", annotation=tmp_path / "annotation.html")
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return tmp_path


def steps(out: str) -> dict[str, Any]:
    return {step["key"]: step for step in yaml.safe_load(out)["steps"]}


def test_a_normal_change_gets_the_policys_conditions(booted: Any) -> None:
    ran = booted.run("bootstrap", FILE, "--changed", "src/engine/core.py")
    assert ran.code == 0, ran.err
    found = steps(ran.out)
    assert "if" not in found["image-build"]
    assert found["upload-ready-pipeline"]["if"] == (
        '((build.branch == "main" && build.env("WEEKLY") == "1") || '
        '(build.branch != "main" && build.pull_request.labels includes "ready"))'
    )
    assert found["upload-ready-pipeline"]["env"] == {"OMNI_CI_SWEEP": ""}
    assert "normal: product or non-whitelisted changes present: src/engine/core.py" in ran.err
    assert "  upload-merge-pipeline: if (" in ran.err


def test_a_gated_change_leaves_the_other_tier_out(booted: Any) -> None:
    ran = booted.run("bootstrap", FILE, "--changed", ".buildkite/cuda/test-ready.yml", "docs/index.md")
    assert ran.code == 0, ran.err
    assert list(steps(ran.out)) == ["image-build", "upload-ready-pipeline"]
    assert (
        "gated: mixed doc/skip-mark and CI config YAML — changed: L2=[.buildkite/cuda/test-ready.yml]"
        in ran.err
    )
    assert "  upload-merge-pipeline: left out, mixed doc/skip-mark" in ran.err


def test_documentation_leaves_the_schedules(booted: Any) -> None:
    ran = booted.run("bootstrap", FILE, "--changed", "docs/index.md")
    assert (
        steps(ran.out)["upload-ready-pipeline"]["if"]
        == '(build.branch == "main" && build.env("WEEKLY") == "1")'
    )
    assert "skip_all: CI skipped — docs or pytest skip-mark changes only" in ran.err


def test_the_weekly_sweep_passes_its_flag(booted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILDKITE_BRANCH", "main")
    monkeypatch.setenv("WEEKLY", "1")
    ran = booted.run("bootstrap", FILE)
    assert steps(ran.out)["upload-merge-pipeline"]["env"] == {"OMNI_CI_SWEEP": "--e2e"}


def test_nothing_is_left_where_a_platform_starts_nothing(booted: Any) -> None:
    booted.write(
        {
            ".buildkite/policy.yml": "schema: 1\ntiers: {ready: {sweep: []}, merge: {sweep: []}, nightly: null, weekly: null}\n"
        }
    )
    ran = booted.run("bootstrap", FILE, "--changed", "docs/index.md")
    assert (ran.code, ran.out) == (0, "")
    assert "no step is left, so there is nothing to upload" in ran.err
    assert "  image-build: left out, nothing is uploaded that needs it: CI skipped" in ran.err


def test_suites_named_by_hand(booted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG_TEST_YAML", "merge")
    ran = booted.run("bootstrap", FILE, "--changed", "src/engine/core.py")
    found = steps(ran.out)
    assert list(found) == ["image-build", "upload-merge-pipeline"]
    assert "if" not in found["upload-merge-pipeline"]
    assert "  upload-ready-pipeline: left out, DEBUG_TEST_YAML names only merge" in ran.err
    monkeypatch.setenv("DEBUG_TEST_YAML", "mergee")
    ran = booted.run("bootstrap", FILE)
    assert ran.code == 2
    assert "DEBUG_TEST_YAML=mergee: no tier 'mergee' starts on cuda (did you mean 'merge'?)" in ran.err


def test_upload_hands_it_over_and_says_on_the_page_what_is_skipped(booted: Any, agent: Path) -> None:
    ran = booted.run("bootstrap", FILE, "--upload", "--changed", "docs/index.md")
    assert (ran.code, ran.out) == (0, ""), ran.err
    upload, annotate = (agent / "agent.log").read_text(encoding="utf-8").splitlines()
    assert upload.startswith("pipeline upload ")
    assert "--reject-secrets" in upload
    assert annotate.startswith("annotate --context omni-ci-bootstrap-cuda ")
    shown = (agent / "annotation.html").read_text(encoding="utf-8")
    assert "CI skipped — docs or pytest skip-mark changes only" in shown
    assert "upload-ready-pipeline" in shown
    folder = booted.root / ".omni-ci/bootstrap-cuda"
    assert list(steps((folder / "pipeline.yml").read_text(encoding="utf-8"))) == list(steps(TEXT))
    assert booted.git("status", "--porcelain") == ""


def test_a_normal_change_needs_no_annotation(booted: Any, agent: Path) -> None:
    assert booted.run("bootstrap", FILE, "--upload", "--changed", "src/engine/core.py").code == 0
    calls = (agent / "agent.log").read_text(encoding="utf-8").splitlines()
    assert [call.split()[0] for call in calls] == ["pipeline"]


def test_an_agent_that_is_not_there_is_infrastructure(booted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    ran = booted.run("bootstrap", FILE, "--upload", "--changed", "src/engine/core.py")
    assert ran.code == 4
    assert "buildkite-agent is not on PATH" in ran.err


@pytest.mark.parametrize(
    ("edit", "tokens", "code", "said"),
    [
        (
            ("upload-ready-pipeline", "upload-reddy-pipeline"),
            (FILE,),
            2,
            f"{FILE}:7: key 'upload-reddy-pipeline'",
        ),
        (("", ""), (".buildkite/cuda/bootstrap.yml",), 2, "there is no such pipeline file"),
        (("", ""), (FILE, "--platform", "cudaa"), 2, "--platform cudaa: there is no such platform"),
        (("depends_on: image-build", "depends_on: image-biuld"), (FILE,), 3, "image-biuld"),
        (
            ("    key: image-build", "    key: image-build\n    if: build.branch = 1"),
            (FILE, "--all"),
            2,
            "--all",
        ),
        (
            ("    key: image-build", "    key: image-build\n    if: build.branch = 1"),
            (FILE,),
            3,
            "cannot be read",
        ),
    ],
)
def test_mistakes(booted: Any, edit: tuple[str, str], tokens: tuple[str, ...], code: int, said: str) -> None:
    booted.edit(FILE, *edit)
    ran = booted.run("bootstrap", *tokens)
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert said in ran.err


def test_a_file_outside_of_the_platforms_folders(booted: Any) -> None:
    booted.write({".buildkite/boot.yml": TEXT})
    ran = booted.run("bootstrap", ".buildkite/boot.yml")
    assert ran.code == 2
    assert (
        "none of its folders is a platform of omni_ci/data/policy.yml (amd, cuda, npu, intel, cpu)" in ran.err
    )
    ran = booted.run("bootstrap", ".buildkite/boot.yml", "--platform", "npu")
    assert list(steps(ran.out)) == ["image-build", "upload-ready-pipeline"]


def test_what_is_kept_beside_the_pipeline_is_json(booted: Any, agent: Path) -> None:
    booted.run("bootstrap", FILE, "--upload", "--changed", ".buildkite/cuda/test-merge.yml")
    (kept,) = (booted.root / ".omni-ci/bootstrap-cuda").glob("*.json")
    found = json.loads(kept.read_text(encoding="utf-8"))
    assert found["decision"]["run"] == [["cuda", "l3"]]
