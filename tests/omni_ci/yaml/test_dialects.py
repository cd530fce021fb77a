"""Files in the shapes that projects have, from one end to the other: registry and presets beside them, valid output."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

PRESETS = """\
x-npu-plugins: &npu_plugins
  - kubernetes:
      podSpecPatch:
        imagePullSecrets:
          - name: swr-secret
x-retry: &retry
  automatic:
    - exit_status: -1
      limit: 1
    - signal_reason: agent_stop
      limit: 1

mirror_hardwares:
  l4_1: &l4
    agents: {queue: l4-k8s}
    retry: *retry
    plugins:
      - kubernetes:
          podSpec:
            containers:
              - image: registry.example/ci:$BUILDKITE_COMMIT
                resources:
                  limits: {nvidia.com/gpu: 1}
                  requests: {nvidia.com/gpu: 1, cpu: "10", memory: 40Gi}
  a3_npu_2:
    agents: {queue: ascend-a3, resource_class: npu-2}
    image: registry.example/npu:${BUILDKITE_COMMIT}-a3
    plugins: *npu_plugins
"""
REGISTRY = """\
# lists that name each other: the loader flattens them
x-engine: &engine
  - src/engine/
  - src/outputs.py
x-model: &model
  - *engine
  - src/models/model_a/

source_file_dependencies:
  source_filter_fallback:
    - tests/helpers/
  model_a_function:
    - *model
    - tests/e2e/test_model_a.py
"""
CUDA_KEYS = """\
env:
  VLLM_WORKER_MULTIPROC_METHOD: spawn
  HF_HUB_DOWNLOAD_TIMEOUT: 300

steps:
  - group: ":card_index_dividers: Simple Test"
    depends_on: upload-merge-pipeline
    steps:

      - label: "Simple · Other Test"
        timeout_in_minutes: 20
        commands:
          - "pytest -sv tests/ -m 'core_model and cpu' --ignore=tests/diffusion"
        mirror_hardwares: l4_1

  - label: "Distributed Test"
    depends_on: upload-merge-pipeline
    timeout_in_minutes: 60
    commands:
      - |
        timeout 55m bash -c "
          set -e
          export VLLM_IMAGE_FETCH_TIMEOUT=60
          pytest -s -v tests/distributed -m 'advanced_model and cuda' --run-level 'advanced_model'
        "
    mirror_hardwares: l4_1

  - group: ":card_index_dividers: E2E Test"
    depends_on: upload-merge-pipeline
    steps:
      - label: "Model A Test"
        source_file_dependencies: model_a_function
        # a comment between keys
        timeout_in_minutes: 50
        commands:
          - pytest -s -v tests/e2e/test_model_a.py -m 'advanced_model and cuda'
        mirror_hardwares: l4_1
"""
CUDA_PATHS = CUDA_KEYS.replace(
    "source_file_dependencies: model_a_function",
    "source_file_dependencies:\n          - tests/e2e/test_model_a.py\n          - src/models/model_a/",
)
NPU = """\
steps:
  - group: ":card_index_dividers: Omni Model Test"
    key: ready-omni-group
    depends_on: upload-ready-pipeline
    steps:
      - label: "Omni · Model Test"
        key: ready-omni
        timeout_in_minutes: 60
        mirror_hardwares: a3_npu_2
        env:
          VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1"
        commands:
          - >-
            pytest -s -v
            tests/e2e/test_model_a.py
            -m 'core_model and npu and A3'
            --run-level 'core_model'
"""
INTEL = """\
# plain Buildkite
steps:
  - group: "INTEL Tests"
    steps:
      - label: "Intel: XPU Test"
        command: "bash scripts/run-xpu-test.sh"
        agents:
          queue: "intel-gpu"
        env:
          DOCKER_BUILDKIT: "1"
          VLLM_IMAGE_TAG: "${BUILDKITE_COMMIT}"
        priority: 100
        timeout_in_minutes: 60
        soft_fail: false
"""
AMD = """\
steps:

- group: ":card_index_dividers: Simple Test"
  steps:
    - label: "Simple · Test · Shard %N/%t"
      agent_pool: mi300_1
      parallelism: 3
      depends_on: image-build
      mirror_hardwares: [amdproduction]
      grade: Blocking
      timeout_in_minutes: 90
      commands:
        - export VLLM_ROCM_USE_AITER=0
        # why it is as it is
        - "pytest -sv tests/a --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$$BUILDKITE_PARALLEL_JOB"

# - label: "Commented out"
#   agent_pool: mi300_1

- label: "Engine Test"
  agent_pool: mi300_4
  depends_on: image-build
  mirror_hardwares: [amdtentative]
  timeout_in_minutes: 20
  commands:
    - >-
      timeout 20m pytest -s -v
      tests/engine
"""
FILES = {
    ".buildkite/presets.yml": None,
    ".buildkite/common/ci_mirror_hardwares.yml": PRESETS,
    ".buildkite/common/ci_source_file_dependencies.yml": REGISTRY,
    ".buildkite/cuda/test-ready.yml": CUDA_PATHS,
    ".buildkite/cuda/test-merge.yml": CUDA_KEYS,
    ".buildkite/npu/test-npu-ready.yml": NPU,
    ".buildkite/intel/pipeline-intel.yml": INTEL,
    ".buildkite/amd/test-amd-merge.yml": AMD,
    "tests/e2e/test_model_a.py": "def test_a(): pass\n",
    "src/models/model_a/model.py": "x = 1\n",
    "src/outputs.py": "x = 1\n",
}
KEYS = [
    word
    for key in ("upload-merge-pipeline", "upload-ready-pipeline", "image-build")
    for word in ("--known-key", key)
]


@pytest.fixture
def project(scratch: Any) -> Any:
    (scratch.root / ".buildkite/presets.yml").unlink()
    scratch.commit({name: text for name, text in FILES.items() if text is not None})
    return scratch


def generated(project: Any, name: str, *flags: str) -> list[dict[str, Any]]:
    ran = project.run("generate", name, *(flags or ("--all",)), *KEYS)
    assert ran.code == 0, ran.err
    steps = yaml.safe_load(ran.out)["steps"]
    return [leaf for step in steps for leaf in step.get("steps", [step])]


@pytest.mark.parametrize("name", [".buildkite/cuda/test-ready.yml", ".buildkite/cuda/test-merge.yml"])
def test_path_lists_and_registry_keys_select_and_render(project: Any, name: str) -> None:
    steps = generated(project, name)
    assert [step["label"] for step in steps] == ["Simple · Other Test", "Distributed Test", "Model A Test"]
    assert all(step["agents"] == {"queue": "l4-k8s"} for step in steps)
    assert not any({"mirror_hardwares", "source_file_dependencies"} & step.keys() for step in steps)


def test_nested_anchors_of_the_registry_are_followed(project: Any) -> None:
    def verdicts(path: str) -> dict[str, str]:
        ran = project.run("plan", ".buildkite/cuda/test-merge.yml", "--changed", path)
        assert ran.code == 0, ran.err
        rows = [line.split() for line in ran.out.splitlines() if "#" in line]
        return {row[1].partition("#")[2]: row[0] for row in rows}

    assert verdicts("src/outputs.py")["model-a-test"] == "run"
    assert verdicts("src/other.py")["model-a-test"] == "skip"


def test_npu_presets_with_image_and_resource_class(project: Any) -> None:
    (step,) = generated(project, ".buildkite/npu/test-npu-ready.yml")
    assert step["agents"] == {"queue": "ascend-a3", "resource_class": "npu-2"}
    assert step["image"] == "registry.example/npu:${BUILDKITE_COMMIT}-a3"
    assert step["commands"] == [
        "pytest -s -v tests/e2e/test_model_a.py -m 'core_model and npu and A3' --run-level 'core_model'"
    ]


def test_a_plain_pipeline_is_uploaded_as_it_is(project: Any) -> None:
    (step,) = generated(project, ".buildkite/intel/pipeline-intel.yml")
    assert step == {
        "label": "Intel: XPU Test",
        "commands": ["bash scripts/run-xpu-test.sh"],
        "agents": {"queue": "intel-gpu"},
        "env": {"DOCKER_BUILDKIT": "1", "VLLM_IMAGE_TAG": "${BUILDKITE_COMMIT}"},
        "priority": 100,
        "timeout_in_minutes": 60,
        "soft_fail": False,
    }


def test_the_older_amd_shape_runs_on_the_pools_of_the_package(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shard,) = generated(project, ".buildkite/amd/test-amd-merge.yml")
    assert (shard["agents"]["queue"], shard["soft_fail"], shard["parallelism"]) == ("amd_mi300_1", False, 3)
    assert not {"agent_pool", "grade", "mirror_hardwares"} & shard.keys()
    monkeypatch.setenv("AMD_MIRROR_HW", "amdtentative")
    (engine,) = generated(project, ".buildkite/amd/test-amd-merge.yml")
    assert (engine["agents"]["queue"], engine["soft_fail"]) == ("amd_mi300_4", True)


def test_a_step_that_the_mirrors_leave_out_says_so_in_the_plan(project: Any) -> None:
    ran = project.run("plan", ".buildkite/amd/test-amd-merge.yml", "--all")
    assert ran.code == 0, ran.err
    (line,) = [line for line in ran.out.splitlines() if "#engine-test" in line]
    assert line.startswith("skip")
    assert line.endswith("its mirrors are amdtentative, and AMD_MIRROR_HW is amdproduction")
    assert "agent_pool mi300_4 → mirror_hardwares mi300_4; no grade → soft_fail true" in ran.err
