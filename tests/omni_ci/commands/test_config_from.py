"""Whose presets, registry, policy and templates count: the head's, or for a fork the merge base's."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"
PRESETS = ".buildkite/presets.yml"
NOTICE = "presets, dependencies, policy and templates are read from the merge base"


@pytest.fixture
def pull_request(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pull request's build of a branch whose preset asks for another queue, and whose step is edited."""
    scratch.git("branch", "base")
    scratch.git("update-ref", "refs/remotes/origin/main", "main")
    scratch.edit(PRESETS, "queue: l4-k8s", "queue: mine")
    scratch.edit(PIPELINE, "timeout_in_minutes: 30", "timeout_in_minutes: 31")
    head = scratch.commit()
    for name, value in {
        "BUILDKITE_PULL_REQUEST": "7",
        "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
        "BUILDKITE_PULL_REQUEST_REPO": "https://github.com/someone/engine.git",
        "BUILDKITE_REPO": "git@github.com:acme/engine.git",
        "BUILDKITE_COMMIT": head,
    }.items():
        monkeypatch.setenv(name, value)
    return scratch


def queue(scratch: Any, *arguments: str) -> str:
    ran = scratch.run("generate", PIPELINE, *arguments)
    assert ran.code == 0, ran.err
    return yaml.safe_load(ran.out)["steps"][0]["steps"][0]["agents"]["queue"]


@pytest.mark.parametrize("mode", [[], ["--all"], ["--only", "engine"], ["--changed", "src/engine/core.py"]])
def test_a_fork_does_not_choose_what_its_steps_run_on(pull_request: Any, mode: list[str]) -> None:
    assert queue(pull_request, *mode) == "l4-k8s"
    ran = pull_request.run("plan", *mode, "--format", "json")
    document = json.loads(ran.out)
    assert document["config"]["from"] == "base"
    assert f"{NOTICE} {pull_request.git('rev-parse', 'base')[:12]}" in ran.err
    assert "the pull request comes from the fork https://github.com/someone/engine.git" in ran.err
    # the pipeline itself is the head's
    assert document["steps"][0]["minutes"] == 31


def test_the_head_is_trusted_only_when_told(pull_request: Any) -> None:
    assert queue(pull_request, "--config-from", "head") == "mine"
    ran = pull_request.run("plan", "--config-from", "head", "--format", "json")
    assert json.loads(ran.out)["config"]["from"] == "head"
    assert "are read from the head of the fork" in ran.err


def test_a_branch_of_our_own_is_read_as_it_is(pull_request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILDKITE_PULL_REQUEST_REPO", "https://github.com/acme/engine")
    assert queue(pull_request) == "mine"
    assert queue(pull_request, "--config-from", "base") == "l4-k8s"


def test_a_fork_without_a_merge_base_is_refused(pull_request: Any) -> None:
    pull_request.git("update-ref", "-d", "refs/remotes/origin/main")
    ran = pull_request.run("plan")
    assert ran.code == 4
    assert "would be read from the merge base, since the pull request comes from the fork" in ran.err
    assert "--config-from head" in ran.err
    assert pull_request.run("plan", "--config-from", "head").code == 0


def test_a_preset_that_only_the_fork_has_is_explained(pull_request: Any) -> None:
    pull_request.edit(PRESETS, "cards: [1, 2, 4]", "cards: [1, 2, 3, 4]")
    pull_request.edit(PIPELINE, "l4_1", "l4_3")
    ran = pull_request.run("plan", "--all")
    assert ran.code == 2
    assert "unknown preset 'l4_3'" in ran.err
    assert NOTICE in ran.err


def test_what_has_no_effect_selects_nothing(pull_request: Any) -> None:
    pull_request.edit(PIPELINE, "timeout_in_minutes: 31", "timeout_in_minutes: 30")
    pull_request.commit()
    document = json.loads(
        pull_request.run("plan", "--head", "HEAD", "--base", "base", "--format", "json").out
    )
    assert [step["runs"] for step in document["steps"]] == [False, False]


def test_a_folder_of_templates_can_be_named(scratch: Any) -> None:
    template = "{% set used = (cpu, memory, shm) %}agents: {queue: from-a-template}\nplugins: [x#v1]\n"
    scratch.write({"pods/k8s-spec.yml.j2": template})
    assert queue(scratch, "--all", "--templates", "pods") == "from-a-template"
    ran = scratch.run("plan", "--templates", "nowhere")
    assert ran.code == 2
    assert "--templates nowhere: there is no *.yml.j2 in such a folder" in ran.err
