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
        ("    key: docs", "    key: docs\n    retry: {automatic: [{exit_status: 1, limits: 3}]}", 2, "`retry.automatic.0.limits` is dropped"),
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
