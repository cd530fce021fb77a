"""Whose presets, registry, policy and templates count: the head's, or for a fork the merge base's."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"
PRESETS = ".buildkite/presets.yml"
NOTICE = "presets, dependencies, policy, templates and [tool.omni] are read from the merge base"


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


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "BUILDKITE_PULL_REQUEST_REPO",
            "since the pull request comes from what counts as a fork, since BUILDKITE_PULL_REQUEST_REPO does not say",
        ),
        (
            "BUILDKITE_REPO",
            "which counts as a fork, since BUILDKITE_REPO does not say which repository is ours",
        ),
    ],
)
@pytest.mark.parametrize("value", ["", None])
def test_a_pull_request_of_unknown_origin_is_read_like_a_forks(
    pull_request: Any, monkeypatch: pytest.MonkeyPatch, name: str, reason: str, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    assert queue(pull_request) == "l4-k8s"
    ran = pull_request.run("plan", "--format", "json")
    assert json.loads(ran.out)["config"]["from"] == "base"
    assert reason in ran.err
    assert queue(pull_request, "--config-from", "head") == "mine"


def test_a_machine_without_buildkite_reads_its_own_files(
    pull_request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("BUILDKITE")]:
        monkeypatch.delenv(name)
    assert queue(pull_request) == "mine"


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


def test_a_fork_does_not_add_hardware_by_a_word(pull_request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head's [tool.omni] would make another preset of the base's its own."""
    step = "steps:\n  - {label: New, key: new, commands: [\"pytest tests/test_engine.py -m 'RTX6000 and cards_1'\"]}\n"
    pull_request.git("checkout", "--quiet", "base")
    fragments = "fragments:\n  rtx6000_1: {agents: {queue: rtx}, plugins: []}\n"
    base = pull_request.commit({PRESETS: pull_request.presets_of("l4") + fragments})
    pull_request.git("update-ref", "refs/remotes/origin/main", base)
    words = {"pyproject.toml": '[tool.omni.skus]\ncuda = ["RTX6000"]\n'}
    head = pull_request.commit({PIPELINE: step, **words})

    def planned(*arguments: str) -> dict[str, Any]:
        ran = pull_request.run("plan", "--format", "json", *arguments)
        assert ran.code == 0, ran.err
        return json.loads(ran.out)["steps"][0]

    monkeypatch.setenv("BUILDKITE_COMMIT", head)
    held_back = planned()
    assert (held_back["runs"], held_back["rule"], held_back["preset"]) == (False, "hardware", None)
    assert planned("--config-from", "head")["preset"] == "rtx6000_1"


def test_a_fork_may_name_its_own_tests(pull_request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker or a topic chooses no hardware, and tests and pipelines are the head's."""
    step = (
        "steps:\n"
        "  - {label: New, key: new, mirror_hardwares: l4_1, tests: {paths: tests/test_engine.py, marks: wide and speech}}\n"
    )
    words = '[tool.omni]\ntopics = ["speech"]\n[tool.pytest.ini_options]\nmarkers = ["wide"]\n'
    monkeypatch.setenv("BUILDKITE_COMMIT", pull_request.commit({PIPELINE: step, "pyproject.toml": words}))
    ran = pull_request.run("plan", "--format", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["config"]["from"] == "base"
    # a device that only the head knows is no word here
    pull_request.edit("pyproject.toml", '["speech"]\n', '["speech"]\nskus = {cuda = ["RTX6000"]}\n')
    pull_request.edit(PIPELINE, "wide and speech", "wide and RTX6000")
    ran = pull_request.run("plan")
    assert ran.code == 2
    assert "'RTX6000'" in ran.err
    assert NOTICE in ran.err


def test_files_that_are_links_are_the_bases_too(pull_request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link's own text was read for presets, and no pull request of a fork could be planned."""
    pull_request.git("checkout", "--quiet", "base")
    (pull_request.root / "ci").mkdir()
    (pull_request.root / PRESETS).rename(pull_request.root / "ci/presets.yml")
    (pull_request.root / PRESETS).symlink_to("../ci/presets.yml")
    (pull_request.root / ".buildkite/templates").symlink_to("../ci/pods")
    template = "{% set used = (cpu, memory, shm) %}agents: {queue: from-a-template}\nplugins: [x#v1]\n"
    base = pull_request.commit({"ci/pods/k8s-spec.yml.j2": template})
    pull_request.git("update-ref", "refs/remotes/origin/main", base)
    pull_request.edit("ci/presets.yml", "queue: l4-k8s", "queue: mine")
    pull_request.edit("ci/pods/k8s-spec.yml.j2", "from-a-template", "mine")
    monkeypatch.setenv("BUILDKITE_COMMIT", pull_request.commit())
    assert queue(pull_request, "--all") == "from-a-template"
    document = json.loads(pull_request.run("plan", "--format", "json").out)
    assert [step["runs"] for step in document["steps"]] == [False, False]
