"""`omni-ci generate`: the pipeline on standard output, everything else on standard error."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"


def test_the_pipeline_is_all_of_standard_output(scratch: Any) -> None:
    scratch.commit({"src/engine/core.py": "x = 2\n"})
    ran = scratch.run("generate", PIPELINE)
    assert ran.code == 0
    (group,) = yaml.safe_load(ran.out)["steps"]
    assert group["group"] == "GPU"
    assert group["steps"][0]["agents"] == {"queue": "l4-k8s"}
    assert "1 of 2 steps run" in ran.err


def test_the_same_bytes_twice(scratch: Any) -> None:
    assert scratch.run("generate", PIPELINE, "--all").out == scratch.run("generate", PIPELINE, "--all").out


def test_nothing_selected_is_a_sentence_and_fine(scratch: Any) -> None:
    ran = scratch.run("generate", PIPELINE, "--changed", "README.md")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing selected, so there is nothing to upload: 0 of 2 steps run" in ran.err


def test_a_group_left_out_is_said(scratch: Any) -> None:
    ran = scratch.run("generate", PIPELINE, "--changed", "docs/index.md")
    assert "group 'GPU' is left out: none of its steps runs" in ran.err


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("timeout_in_minutes: 30", "timeout_in_minute: 30", 2, "did you mean 'timeout_in_minutes'?"),
        ("    key: docs", "    key: docs\n    key: dogs", 2, "key 'key' is written twice, on lines 11 and 12"),
        ("l4_1", "l4_8", 2, "unknown preset 'l4_8'"),
        ("mirror_hardwares: l4_1", "mirror_hardwares: l4_1\n        agents: {queue: x}", 2, "already gives what agents"),
        ("    key: docs", "    key: docs\n    depends_on: engin", 3, "S3 step 'Docs': depends_on 'engin', a key no pipeline file has (did you mean 'engine'?)"),
        ("    key: docs", "    key: docs\n    if: build.branch = 1", 3, "S6 step 'Docs': `if:`"),
        ("    key: docs", "    key: docs\n    parallelism: 2\n    env: {A: b}", 0, ""),
        ("    key: docs", "    key: docs\n    retry: {automatic: [{exit_status: 1, limits: 3}]}", 2, "retry.automatic[0].limits: unknown key (did you mean 'limit'?)"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_with_its_place(
    scratch: Any, old: str, new: str, code: int, message: str
) -> None:
    scratch.edit(PIPELINE, old, new)
    ran = scratch.run("generate", PIPELINE, "--all")
    assert ran.code == code, ran.err
    assert message in ran.err
    assert "Traceback" not in ran.err
    if code:
        assert ran.out == ""
        assert f"{PIPELINE}:" in ran.err


def test_a_key_that_another_file_uploads_is_known(scratch: Any) -> None:
    scratch.edit(PIPELINE, "    key: docs", "    key: docs\n    depends_on: upload-ready")
    assert scratch.run("generate", PIPELINE, "--all").code == 3
    assert scratch.run("generate", PIPELINE, "--all", "--known-key", "upload-ready").code == 0
    scratch.write(
        {".buildkite/bootstrap.yml": "steps:\n  - label: Upload\n    key: upload-ready\n    command: x\n"}
    )
    assert scratch.run("generate", PIPELINE, "--all").code == 0


def test_a_key_in_any_style_of_yaml_is_known_and_a_tolerations_is_not(scratch: Any) -> None:
    scratch.edit(PIPELINE, "    key: docs", "    key: docs\n    depends_on: far")
    scratch.write({".buildkite/other.yml": "x: [{tolerations: [{key: far}]}]\nkey: far\n"})
    assert scratch.run("generate", PIPELINE, "--all").code == 3
    scratch.write({".buildkite/other.yaml": "steps: [{group: g, steps: [{command: x, key: far}]}]\n"})
    assert scratch.run("generate", PIPELINE, "--all").code == 0


OTHER = """\
steps:
  - {label: Near, key: near, command: x, agents: {queue: q}, timeout_in_minutes: 5}
  - label: Far
    key: far
    command: x
    agents: {queue: q}
    timeout_in_minutes: 5
    depends_on: near
    source_file_dependencies: [src/]
"""


def test_a_step_of_another_file_that_does_not_run_is_not_waited_for(scratch: Any) -> None:
    scratch.edit(PIPELINE, "    key: docs", "    key: docs\n    depends_on: far")
    scratch.write({".buildkite/cuda/test-merge.yml": OTHER})
    ran = scratch.run("generate", PIPELINE, "--changed", "docs/index.md")
    assert ran.code == 0, ran.err
    assert yaml.safe_load(ran.out)["steps"][0]["depends_on"] == ["near"]
    assert "'Docs' does not wait for far, which does not run; it waits for near" in ran.err
    both = scratch.run("generate", PIPELINE, "--changed", "docs/index.md", "src/engine/core.py")
    assert yaml.safe_load(both.out)["steps"][1]["depends_on"] == "far"


def test_another_file_that_cannot_be_planned_counts_with_its_keys(scratch: Any) -> None:
    scratch.edit(PIPELINE, "    key: docs", "    key: docs\n    depends_on: far")
    scratch.write({".buildkite/cuda/test-merge.yml": OTHER.replace("label: Far", "lable: Far")})
    ran = scratch.run("generate", PIPELINE, "--changed", "docs/index.md")
    assert yaml.safe_load(ran.out)["steps"][0]["depends_on"] == "far"


def test_a_left_out_group_is_not_waited_for(scratch: Any) -> None:
    scratch.edit(PIPELINE, "  - group: GPU", "  - group: GPU\n    key: gpu")
    scratch.edit(PIPELINE, "    key: docs", "    key: docs\n    depends_on: gpu")
    ran = scratch.run("generate", PIPELINE, "--changed", "docs/index.md")
    assert (ran.code, "depends_on" in ran.out) == (0, False)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("pods: {allow: {queues: [gpu-*]}}", "POLICY step 'Docs': queue 'cpu' is not allowed"),
        (
            "pods: {required_env: [HF_HOME]}",
            "POLICY step 'Engine': preset 'l4_1' (.buildkite/presets.yml:3): container 'container-0' has no HF_HOME",
        ),
    ],
)
def test_what_policy_forbids_is_not_generated(scratch: Any, policy: str, message: str) -> None:
    scratch.write({".buildkite/policy.yml": f"schema: 1\n{policy}\n"})
    ran = scratch.run("generate", PIPELINE, "--all")
    assert (ran.code, ran.out) == (3, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("agents: {queue: evil}", f"{PIPELINE}: POLICY queue 'evil' is not allowed"),
        ("image: evil/x", f"{PIPELINE}: POLICY image 'evil/x' is not allowed"),
    ],
)
def test_what_a_file_says_for_all_steps_is_held_to_policy_too(scratch: Any, line: str, message: str) -> None:
    scratch.write(
        {".buildkite/policy.yml": "schema: 1\npods: {allow: {queues: [cpu, l4-*], images: [ours/*]}}\n"}
    )
    scratch.write({PIPELINE: f"{line}\n" + (scratch.root / PIPELINE).read_text(encoding="utf-8")})
    ran = scratch.run("generate", PIPELINE, "--all")
    assert (ran.code, ran.out) == (3, "")
    assert message in ran.err


@pytest.mark.parametrize(
    "lines", ["agents: 5", "agents: [5]", "notify: 5", "notify: [5]", "secrets: 5", "secrets: [5]"]
)
def test_a_wrong_shape_at_the_top_is_one_message(scratch: Any, lines: str) -> None:
    scratch.write({PIPELINE: f"{lines}\n" + (scratch.root / PIPELINE).read_text(encoding="utf-8")})
    ran = scratch.run("generate", PIPELINE, "--all")
    assert (ran.code, ran.out) in {(2, ""), (3, "")}
    assert lines.partition(":")[0] in ran.err
    assert PIPELINE in ran.err
    assert "Traceback" not in ran.err


def test_a_file_beside_the_folders_is_found(scratch: Any) -> None:
    """Presets in ../common/ come before those in .buildkite/."""
    text = (scratch.root / ".buildkite/presets.yml").read_text(encoding="utf-8")
    scratch.write({".buildkite/common/presets.yml": text.replace("l4-k8s", "l4-common")})
    ran = scratch.run("generate", PIPELINE, "--all")
    assert "queue: l4-common" in ran.out
    scratch.write({".buildkite/cuda/presets.yml": text.replace("l4-k8s", "l4-beside")})
    assert "queue: l4-beside" in scratch.run("generate", PIPELINE, "--all").out


def test_a_file_is_needed(scratch: Any) -> None:
    ran = scratch.run("generate")
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_generating_imports_no_framework(scratch: Any) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "omni_ci", "generate", PIPELINE, "--all"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=scratch.root, check=True)
    imported = {
        line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line
    }
    assert not imported & {"torch", "diffusers", "transformers"}
    assert "buildkite_sdk" in imported


def test_a_projects_own_sku_is_known(scratch: Any) -> None:
    scratch.edit(".buildkite/presets.yml", "sku: L4", "sku: GB300")
    assert "unknown SKU 'GB300'" in scratch.run("generate", PIPELINE).err
    scratch.write({"pyproject.toml": '[tool.omni.skus]\ncuda = ["GB300"]\n'})
    assert scratch.run("generate", PIPELINE).code == 0


def test_without_a_file_the_file_is_asked_for(scratch: Any) -> None:
    ran = scratch.run("generate")
    assert ran.code == 2
    assert "--file" not in ran.err
    assert "FILE" in ran.err


def test_a_known_key_that_names_nothing_is_refused(scratch: Any) -> None:
    ran = scratch.run("generate", ".buildkite/cuda/test-ready.yml", "--known-key")
    assert ran.code == 2
    assert "--known-key names nothing" in ran.err


def test_a_neighbour_that_cannot_be_planned_is_said(scratch: Any) -> None:
    scratch.edit(PIPELINE, "  - label: Docs\n", "  - label: Docs\n    depends_on: other\n")
    broken = "steps:\n  - {label: o, key: other, comand: make}\n"
    scratch.write({".buildkite/amd/test-ready.yml": broken})
    ran = scratch.run("generate", PIPELINE, "--all")
    assert ran.code == 0, ran.err
    assert "note: .buildkite/amd/test-ready.yml cannot be planned" in ran.err
    assert "did you mean 'commands'" in ran.err
