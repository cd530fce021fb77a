"""`omni-ci upload`, with an agent that is a shell script: what it is called with, and what stays when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"
AGENT = """#!/bin/sh
echo "$PWD: $*" >> {log}
case "$1" in
  annotate) cat > {annotation}; exit {annotate} ;;
  pipeline) echo "pipeline: refused \x1b[31m" >&2; exit {upload} ;;
esac
"""


class Agent:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "agent.log"
        self.annotation = folder / "annotation.html"
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")

    def install(self, *, upload: int = 0, annotate: int = 0) -> None:
        path = self.bin / "buildkite-agent"
        text = AGENT.format(log=self.log, annotation=self.annotation, upload=upload, annotate=annotate)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Any) -> Agent:
    monkeypatch.setattr("omni_ci.output.uploading._PAUSES", (0, 0))
    return Agent(tmp_path, monkeypatch)


def test_the_saved_file_is_what_the_agent_gets(scratch: Any, agent: Agent) -> None:
    agent.install()
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0, ran.err
    folder = scratch.root / ".omni-ci" / "cuda-test-ready"
    upload, annotate, artifact = agent.calls
    assert upload.endswith(f"pipeline upload --reject-secrets {folder}/pipeline.yml")
    assert annotate.endswith("annotate --context omni-ci-cuda-test-ready --style info")
    assert artifact == f"{scratch.root}: artifact upload .omni-ci/cuda-test-ready/selection.json"
    assert len(yaml.safe_load((folder / "pipeline.yml").read_text(encoding="utf-8"))["steps"]) == 2
    assert [step["runs"] for step in json.loads((folder / "selection.json").read_text())["steps"]] == [
        True,
        True,
    ]
    assert f"The pipeline is in {folder}/pipeline.yml" in ran.err
    assert scratch.git("status", "--porcelain") == ""


def test_the_build_page_shows_every_step_and_why(scratch: Any, agent: Agent) -> None:
    agent.install()
    scratch.edit(PIPELINE, "label: Engine", "label: 'Engine <script> | `x`'")
    scratch.run("upload", PIPELINE, "--changed", "src/engine/core.py")
    shown = agent.annotation.read_text(encoding="utf-8")
    assert "1 of 2 steps run, 1 skip" in shown
    assert "Engine &lt;script&gt; &#124; &#96;x&#96;" in shown
    assert "nothing changed under docs/" in shown
    assert "<script>" not in shown


def test_without_an_agent_the_pipeline_is_kept_where_the_message_says(scratch: Any, agent: Agent) -> None:
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    path = scratch.root / ".omni-ci/cuda-test-ready/pipeline.yml"
    assert "buildkite-agent is not on PATH, so nothing was uploaded" in ran.err
    assert f"pipeline and reasons are in {path.parent}" in ran.err
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["steps"]
    assert "Traceback" not in ran.err


def test_a_refusal_is_infrastructure_and_its_words_are_shown(scratch: Any, agent: Agent) -> None:
    agent.install(upload=1)
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "buildkite-agent pipeline upload ended with 1" in ran.err
    assert "pipeline: refused" in ran.err
    assert "\x1b" not in ran.err
    assert len(agent.calls) == 1


def test_a_failed_annotation_does_not_fail_the_build(scratch: Any, agent: Agent) -> None:
    agent.install(annotate=1)
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0
    assert "warning: the annotation was not taken" in ran.err


def test_nothing_selected_uploads_nothing_but_says_why(scratch: Any, agent: Agent) -> None:
    agent.install()
    scratch.run("upload", PIPELINE, "--all")
    agent.log.unlink()
    ran = scratch.run("upload", PIPELINE, "--changed", "README.md")
    assert ran.code == 0
    assert "nothing selected, so there is nothing to upload" in ran.err
    assert [call.split(": ")[1].split()[0] for call in agent.calls] == ["annotate", "artifact"]
    assert "0 of 2 steps run" in agent.annotation.read_text(encoding="utf-8")
    # a pipeline of an earlier run must not be taken for this one's
    assert not (scratch.root / ".omni-ci/cuda-test-ready/pipeline.yml").exists()


def test_nothing_selected_is_fine_without_an_agent(scratch: Any, agent: Agent) -> None:
    ran = scratch.run("upload", PIPELINE, "--changed", "README.md")
    assert ran.code == 0
    assert "nothing selected" in ran.err


def test_an_invalid_pipeline_never_reaches_the_agent(scratch: Any, agent: Agent) -> None:
    agent.install()
    scratch.edit(PIPELINE, "    key: docs", "    key: docs\n    depends_on: nothing")
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 3
    assert agent.calls == []


def test_a_folder_that_cannot_be_written_is_said(scratch: Any, agent: Agent) -> None:
    agent.install()
    (scratch.root / ".omni-ci").write_text("a file", encoding="utf-8")
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert ".omni-ci" in ran.err
    assert agent.calls == []


def scripted(agent: Agent, script: str) -> None:
    """Let the agent be *script*."""
    path = agent.bin / "buildkite-agent"
    path.write_text(f"#!/bin/sh\necho $1 >> {agent.log}\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_an_agent_that_never_answers_is_given_up(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omni_ci.output.uploading._SECONDS", 0.3)
    scripted(agent, "exec sleep 60")
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "buildkite-agent pipeline gave no answer within 0.3 s; pipeline and reasons are in " in ran.err


def test_a_child_that_the_agent_leaves_behind_is_not_waited_for(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omni_ci.output.uploading._SECONDS", 2)
    scripted(agent, "sleep 8 &")
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0
    assert "warning" not in ran.err


def test_a_label_that_is_no_text_is_saved_all_the_same(scratch: Any, agent: Agent) -> None:
    agent.install()
    ran = scratch.run("upload", PIPELINE, "--changed", "docs/\udcff.py", "--label", "\udcff")
    assert ran.code == 0, ran.err
    saved = (scratch.root / ".omni-ci/cuda-test-ready/selection.json").read_text(encoding="utf-8")
    assert json.loads(saved)["diff"]["files"] == ["docs/\\xff.py"]


def test_the_policys_allow_lists_hold_before_anything_is_uploaded(scratch: Any, agent: Agent) -> None:
    agent.install()
    scratch.write({".buildkite/policy.yml": "schema: 1\npods: {allow: {queues: [l4-*]}}\n"})
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 3
    assert "'cpu' is not allowed by .buildkite/policy.yml" in ran.err
    assert agent.calls == []
