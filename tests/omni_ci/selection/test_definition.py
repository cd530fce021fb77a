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


NEW_SKU = (
    "steps:\n  - {label: New card, key: new-card, source_file_dependencies: [docs/], commands: [COMMAND]}\n"
)
LITERAL = "schema: 1\nfragments:\n  rtx6000_1: {agents: {queue: rtx}, plugins: []}\n"
SKUS = '[tool.omni.skus]\ncuda = ["RTX6000"]\n'


def test_a_sku_that_the_vocabulary_gets_selects_its_steps(scratch: Any) -> None:
    """The base knows its own words only: what a commit adds there is a change of what the step runs on."""
    command = "\"pytest tests/test_engine.py -m 'core_model and RTX6000 and cards_1'\""
    scratch.commit({PIPELINE: NEW_SKU.replace("COMMAND", command), PRESETS: LITERAL})
    without = verdicts(scratch)["new-card"]
    assert without[:2] == (False, "hardware")
    scratch.commit({"pyproject.toml": SKUS})
    assert verdicts(scratch)["new-card"] == (
        True,
        "self",
        "its definition changed (hardware, agents, plugins)",
    )
    # and nothing where the words stay as they are
    scratch.commit({"pyproject.toml": f'[project]\nname = "x"\n{SKUS}'})
    assert verdicts(scratch)["new-card"][0] is False
    assert verdicts(scratch)["new-card"][1] != "hardware"
    # the way back leaves no hardware to run on
    scratch.commit({"pyproject.toml": ""})
    assert verdicts(scratch)["new-card"][:2] == (False, "hardware")


def test_a_preset_whose_sku_the_base_does_not_know_makes_the_base_unreadable(scratch: Any) -> None:
    scratch.commit({PRESETS: scratch.presets_of("l4").replace("sku: L4", "sku: RTX6000")})
    scratch.commit({"pyproject.toml": SKUS})
    found = verdicts(scratch)["engine"]
    assert found[:2] == (True, "self")
    assert found[2].startswith(f"definition at base unreadable: {PRESETS}:")
    assert "RTX6000" in found[2]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\nmarkers = ["process: forks"]\n'),
        ("pytest.ini", "[pytest]\nmarkers =\n    process: forks\n"),
        ("pyproject.toml", '[tool.omni]\nmarks = ["process"]\n'),
    ],
)
def test_a_marker_that_the_base_does_not_know_makes_the_base_unreadable(
    scratch: Any, file: str, text: str
) -> None:
    tests = "steps:\n  - {label: One, key: one, source_file_dependencies: [docs/], tests: {paths: tests/test_engine.py, marks: process}}\n"
    scratch.commit({PIPELINE: tests})
    scratch.commit({file: text})
    assert verdicts(scratch)["one"][2].startswith(f"definition at base unreadable: {PIPELINE}:2")
    # the other way round the head is what cannot be read
    scratch.commit({file: "" if file.endswith("toml") else "[pytest]\n"})
    ran = scratch.run("plan")
    assert ran.code == 2
    assert "'process'" in ran.err


def test_a_vocabulary_of_the_base_that_cannot_be_read_runs_all_and_says_where(scratch: Any) -> None:
    scratch.commit({"pyproject.toml": "[tool.omni]\nlevel = []\n"})
    scratch.commit({"pyproject.toml": "[tool.omni]\n"})
    for runs, rule, because in verdicts(scratch).values():
        assert (runs, rule) == (True, "self")
        assert because.startswith(
            "definition at base unreadable: pyproject.toml:2: [tool.omni] level: unknown key"
        )


def test_a_step_that_a_mirror_gets_runs_there(scratch: Any) -> None:
    """What an older AMD file lists for a step is in no rendered step, and decides whether there is one."""
    file = ".buildkite/amd/test-amd.yaml"
    step = (
        "steps:\n"
        "- label: One\n  key: one\n  agent_pool: mi300_1\n  mirror_hardwares: [MIRRORS]\n"
        "  commands: [make]\n  source_file_dependencies: [src/]\n"
        "- label: Two\n  key: two\n  agent_pool: mi300_1\n  mirror_hardwares: [amdproduction]\n"
        "  commands: [make]\n  source_file_dependencies: [src/]\n"
    )
    presets = (
        scratch.presets_of("mi300")
        .replace("cuda", "rocm")
        .replace("sku: L4", "sku: MI300")
        .replace("nvidia.com", "amd.com")
    )
    scratch.commit(
        {file: step.replace("MIRRORS", "amdexperimental"), PRESETS: presets, PIPELINE: "steps: []\n"}
    )

    def planned() -> dict[str, tuple[bool, str, str]]:
        ran = scratch.run("plan", file, "--format", "json")
        assert ran.code == 0, ran.err
        return {
            one["key"]: (one["runs"], one["rule"], one["because"]) for one in json.loads(ran.out)["steps"]
        }

    assert planned()["one"][:2] == (False, "hardware")
    scratch.commit({file: step.replace("MIRRORS", "amdexperimental, amdproduction")})
    found = planned()
    assert found["one"] == (True, "self", "its definition changed (hardware)")
    assert found["two"][0] is False
    scratch.commit({file: step.replace("MIRRORS", "amdexperimental")})
    assert planned()["one"][:2] == (False, "hardware")


@pytest.mark.parametrize(("words", "runs"), [(SKUS, True), ("[tool.omni]\n", False)])
def test_listed_words_select_the_steps_that_have_hardware(scratch: Any, words: str, *, runs: bool) -> None:
    """Without a base nobody knows which of them are new."""
    scratch.write({"pyproject.toml": words})
    ran = scratch.run("plan", "--changed", "pyproject.toml", "--format", "json")
    engine, docs = json.loads(ran.out)["steps"]
    assert (engine["runs"], docs["runs"]) == (runs, False)
    if runs:
        assert engine["because"] == "pyproject.toml is listed and there is no base to compare it with"
