"""Which builds measure coverage."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from omni_ci.policy import load_policy
from omni_ci.starting.builds import is_scheduled
from omni_ci.starting.coverage_when import measured_when
from omni_ci.yaml.loading import load_pipeline

FILE = ".buildkite/cuda/test-merge.yml"
PIPELINE = """\
steps:
  - group: E2E Test
    steps:
      - {label: Pilot, key: pilot, commands: "scripts/run_cov_split.sh --model-id a --offline tests/a -- -m cuda"}
      - {label: Other, key: other, commands: pytest tests/b}
  - label: Kept
    key: kept
    env: {OMNI_COVERAGE: "on"}
    commands: omni-ci cov split --model-id b --online tests/b
  - wait
"""
SCHEDULED = load_policy("schema: 1\ncoverage: {when: scheduled}", name="policy.yml")
WEEKLY = {"BUILDKITE_BRANCH": "main", "WEEKLY": "1"}


def envs(policy: Any, environ: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    made, said = measured_when(load_pipeline(PIPELINE, name=FILE), policy, environ=environ)
    return {leaf.key: leaf.env for _, leaf in made.leaves() if leaf.key}, said  # type: ignore[union-attr]


def test_only_scheduled_builds_measure_where_the_policy_says_so() -> None:
    found, said = envs(SCHEDULED, {"BUILDKITE_BRANCH": "main"})
    assert found == {"pilot": {"OMNI_COVERAGE": "off"}, "other": None, "kept": {"OMNI_COVERAGE": "on"}}
    assert len(said) == 1
    assert said[0].startswith(
        "pilot: the tests run, coverage is not measured; coverage.when of policy.yml is "
    )
    assert envs(SCHEDULED, WEEKLY) == ({"pilot": None, "other": None, "kept": {"OMNI_COVERAGE": "on"}}, ())


def test_every_build_measures_by_default() -> None:
    always = load_policy("schema: 1", name="policy.yml")
    assert envs(always, {}) == ({"pilot": None, "other": None, "kept": {"OMNI_COVERAGE": "on"}}, ())


def test_a_pipeline_that_measures_nothing_is_left_alone() -> None:
    pipeline = load_pipeline("steps: [{label: A, commands: pytest tests}]", name=FILE)
    assert measured_when(pipeline, SCHEDULED, environ={}) == (pipeline, ())


@pytest.mark.parametrize(
    ("environ", "is_one"),
    [
        (WEEKLY, True),
        ({"BUILDKITE_BRANCH": "main", "NIGHTLY": "1"}, True),
        ({"BUILDKITE_BRANCH": "main", "NON_CRITICAL": "1"}, True),
        ({"BUILDKITE_BRANCH": "main"}, False),
        ({"BUILDKITE_BRANCH": "main", "NIGHTLY": "0"}, False),
        ({"BUILDKITE_BRANCH": "work", "NIGHTLY": "1"}, False),
        ({"NIGHTLY": "1"}, False),
        ({}, False),
    ],
)
def test_what_a_scheduled_build_is(environ: dict[str, str], is_one: bool) -> None:
    assert is_scheduled(SCHEDULED, environ) is is_one


def test_the_generated_pipeline_says_it(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PIPELINE.replace("key: pilot,", "key: pilot, timeout_in_minutes: 30, mirror_hardwares: l4_1,")
    scratch.write({FILE: text, ".buildkite/policy.yml": "schema: 1\ncoverage: {when: scheduled}\n"})
    ran = scratch.run("generate", FILE, "--all")
    assert ran.code == 0, ran.err
    pilot = yaml.safe_load(ran.out)["steps"][0]["steps"][0]
    assert pilot["env"]["OMNI_COVERAGE"] == "off"
    assert "coverage.when of .buildkite/policy.yml is scheduled" in ran.err
    monkeypatch.setenv("BUILDKITE_BRANCH", "main")
    monkeypatch.setenv("NIGHTLY", "1")
    ran = scratch.run("generate", FILE, "--all")
    assert "OMNI_COVERAGE" not in yaml.safe_load(ran.out)["steps"][0]["steps"][0].get("env", {})
    assert "coverage.when" not in ran.err
