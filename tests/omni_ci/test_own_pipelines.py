"""This repository's own pipelines: what selects what, and what comes out of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from omni_ci.checks.findings import placed
from omni_ci.checks.presets import check_presets
from omni_ci.hardware.card_counts import check_counts
from omni_ci.hardware.plugins import pods_of
from omni_ci.interpolation import interpolate
from omni_ci.output import generating
from omni_ci.planning import Asked, Plan, make_plan, pipeline_names
from omni_ci.selection.judging import Mode
from omni_ci.shell.invocations import invocations
from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.model import Step

ROOT = Path(__file__).parents[2]
NAMES = pipeline_names(ROOT)
FOLDERS = ("amd", "cuda", "intel", "npu")
DEVICES = {"intel-devices-b60", "intel-devices-b60-2", "npu-devices-a2", "npu-devices-a3"}
PILOTS = {"amd-cov-z-image", "cuda-cov-z-image"}


def plan(*changed: str, files: tuple[str, ...] = ()) -> Plan:
    mode = Mode.DIFF if changed else Mode.ALL
    return make_plan(Asked(files=files, changed=changed, mode=mode), here=ROOT, environ={})


def selected(*changed: str) -> set[str]:
    return {verdict.step for verdict in plan(*changed).selection.verdicts if verdict.runs}


def generated(name: str) -> str:
    (text,) = generating.generated(plan(files=(name,))).parts
    return text


def test_a_pipeline_a_platform_and_tier_is_there() -> None:
    assert NAMES == [
        ".buildkite/amd/test-merge.yml",
        ".buildkite/amd/test-ready.yml",
        ".buildkite/cuda/test-merge.yml",
        ".buildkite/cuda/test-ready.yml",
        ".buildkite/intel/test-ready.yml",
        ".buildkite/npu/test-ready.yml",
    ]


@pytest.mark.parametrize(
    "path", ["scripts/run_cov_split.sh", "pyproject.toml", "ci/omni_ci/coverage/split.py"]
)
def test_what_changes_coverage_selects_the_pilots(path: str) -> None:
    assert selected(path) >= PILOTS


@pytest.mark.parametrize("path", ["docs/user_guide/runtime.md", "README.md", "CHANGELOG.md", "mkdocs.yml"])
def test_a_changed_document_selects_nothing(path: str) -> None:
    assert selected(path) == set()


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("tests/e2e/online_serving/test_z_image.py", {*PILOTS, "amd-e2e-z-image", "cuda-e2e-z-image"}),
        (
            "tests/omni_hardware/test_errors.py",
            {*(f"{folder}-{step}" for folder in FOLDERS for step in ("torch-free", "processes")), *DEVICES},
        ),
        (
            "tests/pytest_omni/test_marks.py",
            {f"{folder}-{step}" for folder in FOLDERS for step in ("torch-free", "processes")},
        ),
        ("tests/omni/serving/test_app.py", {"amd-runtime", "cuda-runtime"}),
    ],
)
def test_a_changed_test_selects_its_step(path: str, steps: set[str]) -> None:
    assert selected(path) == steps


def test_product_code_selects_the_runtime_and_the_pilots() -> None:
    assert selected("omni/engine/engine.py") == {
        *PILOTS, "amd-runtime", "cuda-runtime", "amd-e2e-z-image", "cuda-e2e-z-image",
    }  # fmt: skip


def test_a_changed_preset_selects_the_steps_that_use_it(scratch: Any) -> None:
    shutil.rmtree(scratch.root / ".buildkite")
    shutil.copytree(ROOT / ".buildkite", scratch.root / ".buildkite")
    watched = ["pyproject.toml", "scripts/run_cov_split.sh", "ci/omni_ci/coverage/split.py"]
    folders = [f"{folder}/x.py" for folder in ("omni_hardware", "pytest_omni", "omni")]
    scratch.commit(dict.fromkeys([*watched[1:], *folders], "x\n") | {"pyproject.toml": ""})
    scratch.edit(
        ".buildkite/presets.yml", "per_card: {cpu: 10, memory: 40Gi", "per_card: {cpu: 10, memory: 44Gi"
    )
    scratch.commit()
    made = make_plan(Asked(), here=scratch.root, environ=os.environ)
    running = {verdict.step: verdict.because for verdict in made.selection.verdicts if verdict.runs}
    assert {step for step, because in running.items() if "definition" in because} == {
        "cuda-runtime", "cuda-e2e-z-image", "cuda-cov-z-image",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_generated_passes_a_second_opinion(name: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(generated(name), encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.buildkite", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_pod_passes_kubernetes_own_schema(name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    steps = [one.step for one in placed(yaml.safe_load(generated(name)), {})]
    pods = [pod for step in steps for pod in pods_of(step.get("plugins"))]
    assert pods
    for pod in pods:
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod.spec}
        kubernetes_validate.validate(manifest, "1.34", strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_against_them_and_they_are_the_same_twice(name: str) -> None:
    one = generating.generated(plan(files=(name,)))
    assert one.notices == ()
    assert one.parts == (generated(name),)


def test_the_pilots_run_where_they_should() -> None:
    made = plan()
    steps = {leaf.ident: leaf for pipeline in made.pipelines for _, leaf in pipeline.leaves()}
    for name, preset, platform in (
        ("cuda-cov-z-image", "l4_1", "cuda"),
        ("amd-cov-z-image", "mi300_1", "rocm"),
    ):
        step = steps[name]
        assert step.mirror_hardwares == preset
        assert invocations(step.commands).measures_coverage
        assert step.commands[0].endswith(f"-- -m 'core_model and {platform}'")
        assert step.timeout_in_minutes is not None


def test_the_presets_need_nothing_this_repository_does_not_say() -> None:
    for configuration in plan().configurations.values():
        for preset in configuration.presets.by_name.values():
            assert to_yaml(configuration.pods.fragment(preset))


@pytest.mark.parametrize("platform", ["amd", "cuda"])
def test_every_test_is_run_by_a_step_processes_one_at_a_time(platform: str) -> None:
    (pipeline,) = plan(files=(f".buildkite/{platform}/test-ready.yml",)).pipelines
    steps = [leaf for _, leaf in pipeline.leaves() if isinstance(leaf, Step)]
    runs = [
        (command.endswith("-m process"), word, step.parallelism)
        for step in steps
        for command in step.commands
        for word in invocations((command,)).words
    ]
    assert {parallel for is_process, _, parallel in runs if is_process} == {None}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name.startswith("tests/e2e/") or (name.startswith("tests/gpu/") and platform != "cuda"):
            continue  # by name, with the marks of their platform; what only a card proves is written for CUDA
        kinds = {is_process for is_process, word, _ in runs if name == word or name.startswith(f"{word}/")}
        needed = "pytest.mark." + "process"  # in two parts: this file has none
        assert kinds >= ({True, False} if needed in file.read_text(encoding="utf-8") else {False}), name


@pytest.mark.parametrize("platform", ["intel", "npu"])
def test_a_platform_without_the_runtime_runs_all_else(platform: str) -> None:
    (pipeline,) = plan(files=(f".buildkite/{platform}/test-ready.yml",)).pipelines
    steps = [leaf for _, leaf in pipeline.leaves() if isinstance(leaf, Step)]
    words = {
        word for step in steps if step.mirror_hardwares is None for word in invocations(step.commands).words
    }
    assert words == {"tests/omni_hardware", "tests/pytest_omni", "tests/omni_ci", "tests/contracts"}
    assert {step.ident for step in steps if step.mirror_hardwares} == {
        one for one in DEVICES if platform in one
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_cards_of_every_job_are_one_number(name: str) -> None:
    for one in placed(yaml.safe_load(generated(name)), {}):
        assert list(check_counts(one.step, preset=None)) == []


@pytest.mark.parametrize(
    ("name", "runner"),
    [
        (".buildkite/amd/test-ready.yml", "bash scripts/run-amd-test.sh"),
        (".buildkite/intel/test-ready.yml", "bash scripts/run-xpu-test.sh"),
    ],
)
def test_a_runner_gets_every_command_of_the_steps_with_cards(name: str, runner: str) -> None:
    written = {
        leaf.key: list(leaf.commands)
        for _, leaf in plan(files=(name,)).pipelines[0].leaves()
        if isinstance(leaf, Step) and leaf.mirror_hardwares
    }
    handed = {
        one.step["key"]: json.loads(interpolate(one.step["env"]["OMNI_COMMANDS"], {}))
        for one in placed(yaml.safe_load(generated(name)), {})
        if one.step.get("command") == runner
    }
    assert handed == written != {}
    assert os.access(ROOT / runner.removeprefix("bash "), os.X_OK)


def test_the_presets_pass_their_own_checks() -> None:
    for configuration in plan().configurations.values():
        assert not list(check_presets(configuration.presets, configuration.pods, configuration.policy))
