"""The rendered step at the base and at the head, through real commits; a step's paths never change here."""

from __future__ import annotations

import json
from typing import Any

import pytest

PIPELINE = ".buildkite/cuda/test-ready.yml"
PRESETS = ".buildkite/presets.yml"


def verdicts(scratch: Any) -> dict[str, tuple[bool, str, str]]:
    ran = scratch.run("plan", "--format", "json")
    assert ran.code == 0, ran.err
    return {
        step["key"]: (step["runs"], step["rule"], step["because"]) for step in json.loads(ran.out)["steps"]
    }


def test_a_comment_changes_no_definition(scratch: Any) -> None:
    scratch.edit(PIPELINE, "steps:\n  - group", "# a word\nsteps:\n  - group")
    scratch.edit(PRESETS, "skus:", "# a word\nskus:")
    scratch.commit()
    assert [runs for runs, _, _ in verdicts(scratch).values()] == [False, False]


@pytest.mark.parametrize(
    ("path", "old", "new", "because"),
    [
        (
            PIPELINE,
            "timeout_in_minutes: 30",
            "timeout_in_minutes: 31",
            "its definition changed (timeout_in_minutes)",
        ),
        (
            PIPELINE,
            "pytest tests/test_engine.py",
            "pytest -x tests/test_engine.py",
            "its definition changed (commands)",
        ),
        (PIPELINE, "[src/engine/]", "[src/]", "its definition changed (source_file_dependencies)"),
        (PIPELINE, "group: GPU", "group: Cards", "its definition changed (group group)"),
        (PRESETS, "memory: 40Gi", "memory: 48Gi", "its definition changed (plugins)"),
        (PRESETS, "queue: l4-k8s", "queue: l4-new", "its definition changed (agents)"),
    ],
)
def test_what_alters_the_rendered_step_selects_it_and_only_it(
    scratch: Any, path: str, old: str, new: str, because: str
) -> None:
    scratch.edit(path, old, new)
    scratch.commit()
    found = verdicts(scratch)
    assert found["engine"] == (True, "self", because)
    assert found["docs"][0] is False


@pytest.mark.parametrize(
    ("line", "because"),
    [("env: {A: b}\n", "(pipeline env)"), ("agents: {queue: q}\n", "(pipeline agents)")],
)
def test_what_a_file_says_for_all_of_its_steps_selects_all_of_them(
    scratch: Any, line: str, because: str
) -> None:
    scratch.commit({PIPELINE: line + (scratch.root / PIPELINE).read_text(encoding="utf-8")})
    assert set(verdicts(scratch).values()) == {(True, "self", f"its definition changed {because}")}


def test_a_preset_nobody_uses_selects_nothing(scratch: Any) -> None:
    scratch.edit(PRESETS, "cards: [1, 2, 4]", "cards: [1, 2, 3, 4]")
    scratch.commit()
    assert not any(runs for runs, _, _ in verdicts(scratch).values())


def test_policy_reaches_the_pods_it_renders(scratch: Any) -> None:
    scratch.commit({".buildkite/policy.yml": "schema: 1\npods: {secrets: {HF_TOKEN: a/b}}\n"})
    found = verdicts(scratch)
    assert found["engine"] == (True, "self", "its definition changed (plugins)")
    assert found["docs"][0] is False


def test_a_registry_that_opens_to_other_paths_selects_its_steps(scratch: Any) -> None:
    registry = "schema: 1\nsource_file_dependencies:\n  engine: [src/engine/]\n  other: [docs/index.md]\n"
    scratch.edit(PIPELINE, "[src/engine/]", "engine")
    scratch.commit({".buildkite/dependencies.yml": registry})
    scratch.edit(".buildkite/dependencies.yml", "[src/engine/]", "[src/engine/core.py]")
    scratch.commit()
    found = verdicts(scratch)
    assert found["engine"][:2] == (True, "self")
    assert found["docs"][0] is False


def test_a_template_of_the_repositorys_own_selects_what_it_renders(scratch: Any) -> None:
    used = "{% set used = (cpu, memory, shm) %}"
    template = used + "agents: {queue: {{ queue | tojson }}}\nplugins: []\n"
    scratch.commit({".buildkite/templates/k8s-spec.yml.j2": template})
    assert verdicts(scratch)["engine"] == (True, "self", "its definition changed (plugins, retry)")
    scratch.commit({".buildkite/templates/k8s-spec.yml.j2": template.replace("[]", "[p#v1]")})
    assert verdicts(scratch)["engine"] == (True, "self", "its definition changed (plugins)")


def test_a_new_step_and_a_new_file_run(scratch: Any) -> None:
    step = (
        "\n  - {label: New, key: new, agents: {queue: q}, commands: [x], source_file_dependencies: [src/]}\n"
    )
    text = (scratch.root / PIPELINE).read_text(encoding="utf-8")
    scratch.commit({PIPELINE: text.rstrip() + step})
    assert verdicts(scratch)["new"] == (True, "self", "the step is new")
    scratch.commit({".buildkite/cuda/test-merge.yml": text})
    ran = scratch.run("plan", ".buildkite/cuda/test-merge.yml", "--format", "json")
    assert {step["because"] for step in json.loads(ran.out)["steps"]} == {
        ".buildkite/cuda/test-merge.yml is new"
    }


@pytest.mark.parametrize(
    ("path", "broken"),
    [
        (PIPELINE, "steps:\n  - {label: x, comands: [y]}\n"),
        (PRESETS, "schema: 1\nskuz: {}\n"),
        (PRESETS, "\tbad"),
    ],
)
def test_a_base_that_does_not_load_runs_its_steps_and_says_so(scratch: Any, path: str, broken: str) -> None:
    good = (scratch.root / path).read_text(encoding="utf-8")
    scratch.commit({path: broken})
    scratch.commit({path: good})
    for runs, rule, because in verdicts(scratch).values():
        assert (runs, rule) == (True, "self")
        assert because.startswith(f"definition at base unreadable: {path}:")


def test_a_preset_missing_at_the_base_concerns_only_its_steps(scratch: Any) -> None:
    scratch.edit(PRESETS, "cards: [1, 2, 4]", "cards: [2, 4]")
    scratch.commit()
    scratch.edit(PRESETS, "cards: [2, 4]", "cards: [1, 2, 4]")
    scratch.commit()
    found = verdicts(scratch)
    assert found["engine"][2].startswith("definition at base unreadable:")
    assert found["docs"][0] is False
