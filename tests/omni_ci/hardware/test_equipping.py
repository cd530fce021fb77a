"""A step with its preset: how commands reach a runner, what may not be overridden, and patches merged twice."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.checks.validation import validate
from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets, package_presets
from omni_ci.interpolation import interpolate
from omni_ci.rendering.steps import Rendered, render
from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.loading import load_pipeline
from omni_hardware.errors import InputError

PRESETS = """
schema: 1
skus:
  mi300:
    platform: rocm
    sku: MI300
    template: k8s-patch
    cards: [1, 2]
    queue: amd_mi300_{cards}
    resource: amd.com/gpu
    image: registry.example/rocm:$BUILDKITE_COMMIT
    priority: 100
    label_prefix: "mi300_{cards}: "
    depends_on: [image-build]
    runner: scripts/run-amd-test.sh
    job_env: {HF_HUB_DOWNLOAD_TIMEOUT: "300"}
  b60:
    platform: xpu
    sku: B60
    template: k8s-spec
    cards: [1]
    queue: intel
    resource: gpu.intel.com/i915
    runner: scripts/run-xpu-test.sh
    setup: ["export CARDS={cards}", cd /app]
    required_env: [VLLM_VERSION, ZE_AFFINITY_MASK]
    env: {ZE_AFFINITY_MASK: "0"}
  a3:
    platform: npu
    sku: A3
    template: k8s-class
    cards: [2, 16]
    queue: ascend-a3
    resource_class: npu-{cards}
    image: registry.example/npu:${BUILDKITE_COMMIT}-a3
    image_pull_secrets: [swr-secret]
    setup: [source /env.sh]
  l4:
    platform: cuda
    sku: L4
    template: docker
    cards: [1]
    queue: gpu_1_queue
    image: i
"""
STEP = """\
steps:
  - label: One
    key: one
    depends_on: build
    mirror_hardwares: mi300_2
    timeout_in_minutes: 5
    commands:
      - pytest -m "a and b" $$EXTRA
      - echo $BUILDKITE_BRANCH
"""


def equipment(text: str = PRESETS) -> Equipment:
    rules = PodRules(secrets={"HF_TOKEN": "hf/token"}, infra_retry=[{"exit_status": -1, "limit": 1}])
    return Equipment(presets=load_presets(text, name="p.yml"), pods=Pods(package_templates(), rules))


def rendered(text: str = STEP, presets: str = PRESETS) -> Rendered:
    return render(load_pipeline(text, name="a.yml"), equipment(presets))


def only(text: str = STEP, presets: str = PRESETS) -> dict[str, Any]:
    (step,) = rendered(text, presets).document["steps"]
    return dict(step)


def test_a_runner_gets_the_commands_as_json() -> None:
    step = only()
    assert "commands" not in step
    assert step["command"] == "bash scripts/run-amd-test.sh"
    assert list(step)[:4] == ["label", "key", "command", "depends_on"]
    job = interpolate(step["env"]["OMNI_COMMANDS"], {"BUILDKITE_BRANCH": '"]; rm -rf /', "EXTRA": "x"})
    assert json.loads(job) == ['pytest -m "a and b" $EXTRA', "echo $BUILDKITE_BRANCH"]
    assert step["env"]["VLLM_CI_EXPECTED_GPU_COUNT"] == "2"
    assert "TEST_COMMANDS" not in step["env"]


def test_a_runner_is_told_what_the_agent_will_look_for() -> None:
    paths = "    artifact_paths: ['server-$BUILDKITE_JOB_ID.log', 'cost-\\$.json']\n    key: one"
    step = only(STEP.replace("    key: one", paths))
    told = interpolate(step["env"]["OMNI_ARTIFACT_PATHS"], {"BUILDKITE_JOB_ID": "7"})
    assert json.loads(told) == ["server-7.log", "cost-$.json"]
    assert "OMNI_ARTIFACT_PATHS" not in only()["env"]


def test_what_the_preset_says_about_the_step_is_added() -> None:
    step = only()
    assert step["label"] == "mi300_2: One"
    assert step["depends_on"] == ["build", "image-build"]
    assert step["priority"] == 100
    own = only(STEP.replace("depends_on: build", "depends_on: [image-build]\n    priority: 7"))
    assert own["depends_on"] == ["image-build"]
    assert own["priority"] == 7
    assert only(STEP.replace("    depends_on: build\n", ""))["depends_on"] == ["image-build"]
    assert "label" not in only(STEP.replace("label: One\n    ", ""))


def test_setup_comes_before_the_commands_and_without_a_runner_they_stay_commands() -> None:
    step = only(STEP.replace("mi300_2", "a3_2"))
    assert step["commands"] == ["source /env.sh", 'pytest -m "a and b" $$EXTRA', "echo $BUILDKITE_BRANCH"]
    assert step["image"] == "registry.example/npu:${BUILDKITE_COMMIT}-a3"
    assert "env" not in step
    made = only("env: {VLLM_VERSION: v1}\n" + STEP.replace("mi300_2", "b60_1"))
    assert json.loads(made["env"]["OMNI_COMMANDS"])[:2] == ["export CARDS=1", "cd /app"]


def test_older_runners_get_their_text_where_a_preset_asks() -> None:
    step = only(presets=PRESETS.replace("    priority: 100\n", "    test_commands: true\n"))
    assert step["env"]["TEST_COMMANDS"] == 'pytest -m "a and b" $$EXTRA\necho $BUILDKITE_BRANCH'


def test_a_step_that_does_not_run_takes_none_of_the_presets_waits_along() -> None:
    text = "steps:\n  - {label: B, key: build, commands: [x]}\n" + STEP.partition("\n")[2]
    made = render(load_pipeline(text, name="a.yml"), equipment(), runs=["one"])
    assert made.document["steps"][0]["depends_on"] == ["image-build"]


def test_the_files_environment_beats_the_presets_and_the_steps_beats_both() -> None:
    assert only()["env"]["HF_HUB_DOWNLOAD_TIMEOUT"] == "300"
    top = "env: {HF_HUB_DOWNLOAD_TIMEOUT: 600}\n"
    assert "HF_HUB_DOWNLOAD_TIMEOUT" not in only(top + STEP)["env"]
    step = STEP.replace("    timeout", "    env: {HF_HUB_DOWNLOAD_TIMEOUT: 900}\n    timeout")
    assert only(top + step)["env"]["HF_HUB_DOWNLOAD_TIMEOUT"] == "900"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            STEP.replace("    timeout", "    env: {OMNI_COMMANDS: x}\n    timeout"),
            "a.yml:2: step 'One': `env: OMNI_COMMANDS`",
        ),
        (
            STEP.replace("    timeout", "    env: {OMNI_COMMAND_1: x}\n    timeout"),
            "`env: OMNI_COMMAND_1` is set by preset",
        ),
        (
            STEP.replace("    timeout", "    env: {TEST_COMMANDS: x}\n    timeout"),
            "`env: TEST_COMMANDS` is set by preset",
        ),
        (
            STEP.replace("    timeout", "    env: {VLLM_CI_DOCKER_DISABLED: 0}\n    timeout"),
            "`env: VLLM_CI_DOCKER_DISABLED`",
        ),
        ("env: {OMNI_COMMANDS: x}\n" + STEP, "a.yml: `env: OMNI_COMMANDS` is set by the presets"),
        (
            STEP.replace("mi300_2", "b60_1"),
            "a.yml:2: step 'One': preset 'b60_1' (p.yml:17) requires VLLM_VERSION; give it under `env:` of the step",
        ),
    ],
)
def test_what_would_contradict_the_preset_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        rendered(text)
    assert message in str(refused.value)


def test_a_step_may_carry_what_only_a_runner_reads_where_there_is_none() -> None:
    step = STEP.replace("mi300_2", "l4_1").replace("    timeout", "    env: {TEST_COMMANDS: x}\n    timeout")
    assert only(step)["env"] == {"TEST_COMMANDS": "x"}


@pytest.mark.parametrize("how", ["    env: {VLLM_VERSION: v1}\n", "top"])
def test_a_required_variable_may_come_from_the_step_or_the_file(how: str) -> None:
    text = STEP.replace("mi300_2", "b60_1")
    text = (
        "env: {VLLM_VERSION: v1}\n" + text
        if how == "top"
        else text.replace("    timeout", f"{how}    timeout")
    )
    assert only(text)["agents"] == {"queue": "intel"}


# --- idempotent -------------------------------------------------------------------------------------------------


def merged(pod: Any, patch: Any, key: str = "") -> Any:
    """Return what Kubernetes makes of a strategic merge: these lists by a key of their entries, others replaced."""
    by = {
        "containers": "name",
        "env": "name",
        "volumes": "name",
        "imagePullSecrets": "name",
        "volumeMounts": "mountPath",
    }
    if isinstance(pod, dict) and isinstance(patch, dict):
        both = {name: merged(pod[name], patch[name], name) for name in pod.keys() & patch.keys()}
        return {**pod, **patch, **both}
    if isinstance(pod, list) and isinstance(patch, list) and key in by:
        entries = {entry[by[key]]: entry for entry in pod}
        for entry in patch:
            name = entry[by[key]]
            entries[name] = merged(entries[name], entry) if name in entries else entry
        return list(entries.values())
    return copy.deepcopy(patch)


# what the stack has before the step's patch
STACKS = {
    "containers": [
        {"name": "agent", "image": "agent"},
        {"name": "container-0", "image": "ubuntu", "command": ["x"]},
    ],
    "volumes": [{"name": "workspace", "emptyDir": {}}],
}


@pytest.mark.parametrize("preset", ["mi300_1", "mi300_2", "a3_2", "a3_16"])
def test_a_patch_applied_twice_gives_the_same_pod(preset: str) -> None:
    step = only(STEP.replace("mi300_2", preset))
    patch = step["plugins"][0]["kubernetes"]["podSpecPatch"]
    once = merged(STACKS, patch)
    assert merged(once, patch) == once
    agent, command = once["containers"]
    assert agent == STACKS["containers"][0]  # type: ignore[index]
    assert command["command"] == ["x"]
    assert [entry["name"] for entry in command["env"]].count("VLLM_CI_EXPECTED_GPU_COUNT") == 1


@given(
    st.lists(st.sampled_from(["mi300_1", "mi300_2", "a3_2", "a3_16", "l4_1", None]), min_size=1, max_size=6)
)
@settings(max_examples=25)
def test_rendering_what_was_rendered_changes_nothing(presets: list[str | None]) -> None:
    steps = [
        {
            "label": f"S{index}",
            "commands": ["pytest $$A '$B'", "x"],
            **({"mirror_hardwares": name} if name else {}),
        }
        for index, name in enumerate(presets)
    ]
    once = rendered(yaml.safe_dump({"steps": steps}))
    text = to_yaml(once.document)
    assert to_yaml(rendered(yaml.safe_dump({"steps": steps})).document) == text
    again = rendered(text).document
    # the dialect's one word for both
    spelled = [
        {"commands" if key == "command" else key: value for key, value in step.items()}
        for step in once.document["steps"]
    ]
    spelled = [
        {**step, "commands": [step["commands"]] if isinstance(step["commands"], str) else step["commands"]}
        for step in spelled
    ]
    assert again["steps"] == spelled
    assert to_yaml(rendered(to_yaml(again)).document) == to_yaml(again)


# --- the package's presets --------------------------------------------------------------------------------------

OLDER = (
    "steps: [{label: One, key: one, mirror_hardwares: mi250_4, timeout_in_minutes: 5, commands: [pytest]}]\n"
)


def test_a_pool_of_the_older_shape_is_the_packages_unless_the_repository_has_it() -> None:
    made = rendered(OLDER)
    assert made.notices == (
        (
            "a.yml:1: step 'One': preset 'mi250_4' is not in p.yml; the package's own is used, which waits for "
            "image-build where a step waits for nothing"
        ),
    )
    (step,) = made.document["steps"]
    assert step["label"] == "mi250_4: One"
    assert step["agents"] == {"queue": "amd_mi250_4"}
    assert step["command"] == "bash .buildkite/amd/scripts/run-amd-test.sh"
    assert step["depends_on"] == ["image-build"]
    assert step["priority"] == 100
    assert step["env"]["TEST_COMMANDS"].splitlines() == [
        "rocm-smi || true", "cd /app/vllm-omni", "pip uninstall -y amd-aiter", "pytest",
    ]  # fmt: skip
    assert validate(made.document, known_keys=["image-build"]) == ()
    own = rendered(OLDER.replace("mi250_4", "mi300_2"))
    assert own.notices == ()
    assert own.document["steps"][0]["command"] == "bash scripts/run-amd-test.sh"


def test_a_pool_of_the_package_does_not_wait_beside_what_a_step_waits_for() -> None:
    """A key that is not there is refused, and `amd-build`, which is, was joined by an `image-build` that is not."""
    (step,) = rendered(OLDER.replace("key: one", "key: one, depends_on: amd-build")).document["steps"]
    assert step["depends_on"] == "amd-build"
    (step,) = rendered(OLDER.replace("key: one", "key: one, depends_on: []")).document["steps"]
    assert step["depends_on"] == ["image-build"]


def test_the_older_pools_carry_the_native_contract() -> None:
    assert sorted(package_presets()) == sorted(
        f"{sku}_{cards}" for sku in ("mi250", "mi300", "mi325", "mi355") for cards in (1, 2, 4, 8)
    )
    for name, preset in package_presets().items():
        fragment = equipment().pods.fragment(preset)
        assert fragment["agents"] == {"queue": f"amd_{name}"}
        assert fragment["env"] == {
            "VLLM_CI_EXPECTED_GPU_COUNT": name.partition("_")[2],
            "VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "300",
            "HF_HUB_ETAG_TIMEOUT": "60",
        }
        (container,) = fragment["plugins"][0]["kubernetes"]["podSpecPatch"]["containers"]
        assert container["image"] == "rocm/vllm-omni:$BUILDKITE_COMMIT"
        assert {entry["name"]: entry.get("value") for entry in container["env"]} == {
            "VLLM_CI_DOCKER_DISABLED": "1", "VLLM_CI_EXPECTED_GPU_COUNT": name.partition("_")[2],
            "AMD_CI_RUNTIME": "native", "NATIVE_CI": "true", "HF_HOME": "/home/buildkite-agent/huggingface",
            "MIOPEN_DEBUG_CONV_DIRECT": "0", "MIOPEN_DEBUG_CONV_GEMM": "0", "VLLM_ROCM_USE_AITER": "0",
            "PYTORCH_ROCM_ARCH": "", "HF_TOKEN": None,
        }  # fmt: skip


def test_an_unknown_name_is_unknown_without_a_file_too() -> None:
    with pytest.raises(InputError, match=r"unknown preset 'mi300_3' \(did you mean 'mi300_\d'"):
        rendered(OLDER.replace("mi250_4", "mi300_3"), "schema: 1\n")


def test_a_file_of_the_older_shape_renders_with_the_packages_pools() -> None:
    text = """\
steps:
- group: "Simple"
  steps:
    - label: "Engine · Shard %N/%t"
      agent_pool: mi300_2
      parallelism: 2
      mirror_hardwares: [amdproduction]
      grade: Blocking
      timeout_in_minutes: 40
      commands:
        - pytest -m 'core_model and rocm' --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$$BUILDKITE_PARALLEL_JOB
"""
    made = rendered(text, "schema: 1\n")
    (group,) = made.document["steps"]
    (step,) = group["steps"]
    assert step["label"] == "mi300_2: Engine · Shard %N/%t"
    assert step["soft_fail"] is False
    assert step["agents"] == {"queue": "amd_mi300_2"}
    assert json.loads(interpolate(step["env"]["OMNI_COMMANDS"], {}))[-1] == (
        "pytest -m 'core_model and rocm' --num-shards=$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$BUILDKITE_PARALLEL_JOB"
    )
    assert validate(made.document, presets=made.presets, known_keys=["image-build"]) == ()
