"""`--only KEY…`: steps by name with all they wait for, in this file and in others."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

READY = ".buildkite/cuda/test-ready.yml"
MERGE = ".buildkite/cuda/test-merge.yml"
IMAGE = ".buildkite/pipeline.yml"
STEPS = """\
steps:
  - group: Build
    key: build
    steps:
      - {label: Wheel, key: wheel, agents: {queue: cpu}, commands: [make], source_file_dependencies: [x/]}
      - {label: Image, key: image, agents: {queue: cpu}, commands: [make], depends_on: setup, source_file_dependencies: [x/]}
  - {label: Setup, key: setup, agents: {queue: cpu}, commands: [make], source_file_dependencies: [x/]}
  - block: Go?
    key: go
    depends_on: wheel
  - {label: "Engine %N · L4", agents: {queue: cpu}, commands: [make], depends_on: [go, build], source_file_dependencies: [x/]}
  - {label: Docs, key: docs, agents: {queue: cpu}, commands: [make], source_file_dependencies: [docs/]}
  - {label: After, key: after, agents: {queue: cpu}, commands: [make], depends_on: [{step: wheel, allow_failure: true}], source_file_dependencies: [x/]}
"""


@pytest.fixture
def steps(scratch: Any) -> Any:
    scratch.commit({READY: STEPS})
    return scratch


def planned(scratch: Any, *arguments: str) -> dict[str, tuple[bool, str, str]]:
    ran = scratch.run("plan", *arguments, "--format", "json")
    assert ran.code == 0, ran.err
    return {
        step["key"]: (step["runs"], step["rule"], step["because"]) for step in json.loads(ran.out)["steps"]
    }


def test_infra442_a_rerun_by_key_takes_along_what_the_step_waits_for(steps: Any) -> None:
    """Rerunning one failed step needs its producers, which the diff of the new commit does not select."""
    found = planned(steps, "--only", "engine-l4")
    assert found == {
        "engine-l4": (True, "only", "asked for with --only"),
        "wheel": (True, "only", "'engine-l4' waits for it"),
        "image": (True, "only", "'engine-l4' waits for it"),
        "setup": (True, "only", "'image' waits for it"),
        "docs": (False, "only", "it was not asked for, and no step that was waits for it"),
        "after": (False, "only", "it was not asked for, and no step that was waits for it"),
    }
    document = yaml.safe_load(steps.run("generate", READY, "--only", "after").out)
    assert [step.get("key") for step in document["steps"]] == ["build", "go", "after"]
    assert [step["key"] for step in document["steps"][0]["steps"]] == ["wheel"]


def test_infra500_a_step_without_a_key_is_named_as_the_plan_shows_it(steps: Any) -> None:
    """Steps whose key comes from their label were "unknown" to a rerun that had its names from the build."""
    assert planned(steps, "--only", f"{READY}#engine-l4")["engine-l4"][0]
    assert planned(steps, "--only", "engine-l4")["engine-l4"][0]


def test_infra512_a_key_that_is_gone_is_refused_with_the_nearest_one(steps: Any) -> None:
    """A rerun that named one removed step must not look complete: all unknown keys are named, nothing runs."""
    ran = steps.run("plan", "--only", "docs", "wheal", "amd-engine")
    assert ran.code == 2
    assert "--only 'wheal': no step has this key (did you mean 'wheel'?)" in ran.err
    assert "--only 'amd-engine': no step has this key" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("docs", "must be a JSON array"),
        ("[]", "must be a JSON array"),
        ('"docs"', "JSON array"),
        ("[1]", "JSON array"),
    ],
)
def test_infra520_what_the_environment_says_wrongly_fails_closed(
    steps: Any, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    """A malformed list of step keys must end the build, not run everything or nothing."""
    monkeypatch.setenv("VLLM_CI_ONLY_STEP_KEYS", value)
    ran = steps.run("plan")
    assert ran.code == 2
    assert said in ran.err


def test_the_environment_asks_beside_the_flags_of_the_whole_build(
    steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CI_ONLY_STEP_KEYS", '["docs"]')
    for flags in ([], ["--e2e"], ["--all"], ["--changed", "x/y"]):
        ran = steps.run("plan", *flags, "--format", "json")
        document = json.loads(ran.out)
        assert (document["mode"], document["only"]) == ("only", ["docs"])
        assert [step["key"] for step in document["steps"] if step["runs"]] == ["docs"]
        assert "VLLM_CI_ONLY_STEP_KEYS is set" in ran.err
    assert "asked for with VLLM_CI_ONLY_STEP_KEYS" in steps.run("plan").out
    # typed, it is the flag that counts
    assert planned(steps, "--only", "after")["docs"][0] is False
    monkeypatch.setenv("VLLM_CI_ONLY_STEP_KEYS", "")
    assert json.loads(steps.run("plan", "--format", "json").out)["mode"] == "diff"


def test_a_group_stands_for_its_steps_and_a_gate_for_nothing(steps: Any) -> None:
    assert {key for key, (runs, _, _) in planned(steps, "--only", "build").items() if runs} == {
        "wheel", "image", "setup",
    }  # fmt: skip
    ran = steps.run("plan", "--only", "go")
    assert ran.code == 2
    assert "--only 'go' names a gate, which runs nothing by itself" in ran.err


def test_what_a_step_waits_for_in_another_file_runs_there(steps: Any) -> None:
    merge = (
        "steps: [{label: M, key: m, agents: {queue: cpu}, commands: [make], depends_on: [docs, upload]}]\n"
    )
    image = "steps: [{label: U, key: upload, agents: {queue: cpu}, command: make, depends_on: setup}]\n"
    steps.commit({MERGE: merge, IMAGE: image})
    assert {key for key, (runs, _, _) in planned(steps, "--only", "m").items() if runs} == {
        "m", "docs", "setup",
    }  # fmt: skip
    found = planned(steps, READY, "--only", "m")
    assert found["docs"] == (True, "only", "'m' waits for it")
    assert found["setup"] == (True, "only", "'upload' waits for it")
    assert (
        f"{MERGE}#m was asked for and is not in a file of this plan"
        in steps.run("plan", READY, "--only", "m").err
    )
    made = steps.run("generate", MERGE, "--only", "m")
    assert made.code == 0, made.err
    assert yaml.safe_load(made.out)["steps"][0]["depends_on"] == ["docs", "upload"]


def test_two_steps_that_wait_for_each_other_are_no_endless_loop(steps: Any) -> None:
    text = (
        "steps: [{label: A, key: a, agents: {queue: q}, command: x, depends_on: b},"
        " {label: B, key: b, agents: {queue: q}, command: x, depends_on: a}]\n"
    )
    steps.write({MERGE: text})
    assert planned(steps, MERGE, "--only", "a")["b"] == (True, "only", "'a' waits for it")


@pytest.mark.parametrize(
    "other", [["--all"], ["--e2e"], ["--changed", "x"], ["--base", "main"], ["--from", "s.json"]]
)
def test_only_beside_another_way_to_select_is_refused(steps: Any, other: list[str]) -> None:
    ran = steps.run("plan", "--only", "docs", *other)
    assert ran.code == 2
    assert "exclude each other" in ran.err
    assert steps.run("plan", "--only").code == 2
