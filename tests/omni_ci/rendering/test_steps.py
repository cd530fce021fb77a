"""A pipeline file to Buildkite's document."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets
from omni_ci.rendering.sdk import DroppedKeyError
from omni_ci.rendering.steps import Rendered, render
from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.loading import load_pipeline
from omni_hardware.errors import InputError

PRESETS = """
schema: 1
skus:
  l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 2], queue: q, resource: nvidia.com/gpu, job_env: {A: preset, B: preset}}
fragments:
  literal: {agents: {queue: pool}, retry: {automatic: [{exit_status: -1, limit: 1}]}}
"""
PIPELINE = """\
x-env: &env {A: step}
env: {P: "1"}
steps:
  - label: Build
    key: build
    commands: [make]
    source_file_dependencies: [src/]
  - group: GPU
    depends_on: build
    source_file_dependencies: [src/]
    steps:
      - label: One
        key: one
        mirror_hardwares: l4_1
        env: *env
        timeout_in_minutes: 5
        depends_on: [build, elsewhere]
        commands: [pytest]
      - label: Two
        key: two
        mirror_hardwares: literal
        retry: {automatic: [{exit_status: 128, limit: 2}]}
        env: *env
        commands: [pytest]
  - wait
  - label: Last
    key: last
    commands: [echo]
"""


def equipment(platform: str | None = None) -> Equipment:
    rules = PodRules(secrets={}, infra_retry=[{"exit_status": -1, "limit": 1}])
    presets = load_presets(PRESETS, name="presets.yml")
    return Equipment(presets=presets, pods=Pods(package_templates(), rules), platform=platform)


def rendered(text: str = PIPELINE, *runs: str, platform: str | None = None) -> Rendered:
    return render(load_pipeline(text, name="a.yml"), equipment(platform), runs=runs or None)


def test_everything_is_there_and_the_uploaders_keys_are_not() -> None:
    made = rendered()
    assert made.document["env"] == {"P": "1"}
    build, group, wait, last = made.document["steps"]
    assert build == {"label": "Build", "key": "build", "commands": ["make"]}
    assert wait == "wait"
    assert last["key"] == "last"
    text = to_yaml(made.document)
    assert "mirror_hardwares" not in text
    assert "source_file_dependencies" not in text
    assert "x-env" not in text
    assert group["depends_on"] == "build"
    assert made.origins == {
        (0,): "a.yml:4", (1,): "a.yml:8", (1, 0): "a.yml:12", (1, 1): "a.yml:19", (2,): "a.yml:25", (3,): "a.yml:26",
    }  # fmt: skip
    assert made.presets == {(1, 0): "l4_1", (1, 1): "literal"}


def test_the_presets_keys_join_the_step() -> None:
    one, two = rendered().document["steps"][1]["steps"]
    assert one["env"] == {"A": "step", "B": "preset"}
    assert one["agents"] == {"queue": "q"}
    assert one["retry"] == {"automatic": [{"exit_status": -1, "limit": 1}]}
    assert two["agents"] == {"queue": "pool"}


def test_a_steps_own_retry_wins() -> None:
    _, two = rendered().document["steps"][1]["steps"]
    assert two["retry"] == {"automatic": [{"exit_status": 128, "limit": 2}]}


def test_the_same_bytes_twice() -> None:
    assert to_yaml(rendered().document) == to_yaml(rendered().document)


def test_a_group_without_steps_goes_and_that_is_said() -> None:
    made = rendered(PIPELINE, "build", "last")
    assert [step.get("label") for step in made.document["steps"]] == ["Build", "Last"]
    assert made.notices == (
        "a.yml:8: group 'GPU' is left out: none of its steps runs",
        "a.yml:26: 'Last' waits for build, elsewhere",
    )
    assert made.document["steps"][1]["depends_on"] == ["build", "elsewhere"]


def test_a_step_does_not_wait_for_one_that_does_not_run() -> None:
    made = rendered(PIPELINE, "one")
    (group,) = made.document["steps"]
    assert "depends_on" not in group
    assert group["steps"][0]["depends_on"] == ["elsewhere"]
    assert made.notices == (
        "a.yml:12: 'One' does not wait for build, which does not run",
        "a.yml:8: 'GPU' does not wait for build, which does not run",
    )


def test_a_step_inherits_what_a_missing_one_waited_for() -> None:
    text = "steps:\n" + "".join(
        f"  - {{label: {key}, key: {key}, commands: [x]{waits}}}\n"
        for key, waits in (("image", ""), ("mid", ", depends_on: image"), ("leaf", ", depends_on: [mid]"))
    )
    made = rendered(text, "image", "leaf")
    assert made.document["steps"][1]["depends_on"] == ["image"]
    assert made.notices == ("a.yml:4: 'leaf' does not wait for mid, which does not run; it waits for image",)


def test_a_step_that_would_start_too_early_stops_the_rendering() -> None:
    text = """\
steps:
  - {label: Bare, commands: [x]}
  - wait
  - {label: mid, key: mid, commands: [x]}
  - {label: other, key: other, commands: [x]}
  - {label: leaf, key: leaf, commands: [x], depends_on: [mid, other]}
"""
    with pytest.raises(
        InputError, match=r"a\.yml:6: 'leaf' waits for 'Bare' through .* no key .*; give it one"
    ):
        rendered(text, "bare", "wait", "other", "leaf")
    assert not rendered(text).is_empty


def test_a_file_may_not_set_what_its_presets_count() -> None:
    text = PIPELINE.replace('env: {P: "1"}', "env: {VLLM_CI_EXPECTED_GPU_COUNT: 4}")
    with pytest.raises(InputError, match=r"a\.yml: `env: VLLM_CI_EXPECTED_GPU_COUNT` is set by the presets"):
        rendered(text)
    alone = "env: {VLLM_CI_EXPECTED_GPU_COUNT: 4}\nsteps: [{label: x, key: x, commands: [y]}]\n"
    assert not rendered(alone).is_empty


def test_gates_alone_are_no_pipeline() -> None:
    assert rendered(
        "steps:\n  - wait\n  - {block: Go, key: go}\n  - {label: x, key: x, commands: [y]}\n", "go", "wait"
    ).is_empty


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PIPELINE.replace("l4_1", "l4_3"),
            r"a\.yml:12: step 'One': unknown preset 'l4_3' \(did you mean 'l4_[12]'\?\)",
        ),
        (
            PIPELINE.replace("{A: step}", "{VLLM_CI_EXPECTED_GPU_COUNT: 4}"),
            r"`env: VLLM_CI_EXPECTED_GPU_COUNT` is set by preset 'l4_1'",
        ),
    ],
)
def test_a_bad_preset_is_refused_at_the_step(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rendered(text)


def test_a_preset_and_agents_together_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"a\.yml:14:9: .*mirror_hardwares already gives what agents \(line 15\) would set"
    ):
        rendered(
            PIPELINE.replace("mirror_hardwares: l4_1", "mirror_hardwares: l4_1\n        agents: {queue: x}")
        )


def test_another_platforms_preset_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"a\.yml:12: step 'One': preset 'l4_1' is cuda hardware, and this folder's pipelines are rocm",
    ):
        rendered(platform="rocm")
    assert not rendered(platform="cuda").is_empty


def test_a_key_the_classes_lose_stops_the_rendering() -> None:
    text = PIPELINE.replace("commands: [echo]", "commands: [echo]\n    notify: [{slack: x, iff: y}]")
    with pytest.raises(DroppedKeyError, match=r"a\.yml:26: step 'Last': `notify\.0\.iff` is dropped"):
        rendered(text)


@given(st.sets(st.sampled_from(["build", "one", "two", "wait", "last"])))
@settings(max_examples=50)
def test_exactly_the_steps_that_run_are_rendered(runs: set[str]) -> None:
    made = render(load_pipeline(PIPELINE, name="a.yml"), equipment(), runs=runs)
    keys = [
        child.get("key")
        for step in made.document["steps"]
        if step != "wait"
        for child in step.get("steps", [step])
    ]
    working = runs - {"wait"}
    assert set(keys) == working
    assert all(step == "wait" or step.get("steps", [step]) for step in made.document["steps"])


def test_what_a_place_no_longer_stands_for_is_written_or_told() -> None:
    text = """\
steps:
  - label: Bare
    commands: [x]
  - {label: GPU, key: gpu, commands: [x], depends_on: image-build}
  - wait
  - {label: Report, key: report, commands: [x]}
"""
    bare = rendered(text, "bare", "wait", "report")
    (said,) = bare.notices
    assert said == (
        "a.yml:6: 'Report' stands behind a step that does not run, and does not wait for what that one waited "
        "for: image-build; for that give 'Bare' a key"
    )
    assert bare.document["steps"][-1] == {"label": "Report", "key": "report", "commands": ["x"]}
    keyed = rendered(text.replace("commands", "key: bare\n    commands", 1), "bare", "wait", "report")
    assert keyed.notices == ("a.yml:7: 'Report' waits for bare, image-build",)
    assert keyed.document["steps"][-1]["depends_on"] == ["bare", "image-build"]
