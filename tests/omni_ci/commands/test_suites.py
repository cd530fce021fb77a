"""`omni-ci generate` and `upload` with several files: the suites of one build in one upload."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

READY, MERGE = ".buildkite/amd/test-ready.yml", ".buildkite/amd/test-merge.yml"
PRESETS = """\
schema: 1
skus:
  mi300: {platform: rocm, sku: MI300, template: k8s-patch, cards: [1, 2], queue: "amd_mi300_{cards}", resource: amd.com/gpu,
          image: "registry.example/rocm:1", runner: run.sh, test_commands: true}
"""
SUITE = """\
env: {{BUILD: "{build}"}}
steps:
  - label: {label} engine
    key: {label}-engine
    mirror_hardwares: mi300_2
    parallelism: 2
    timeout_in_minutes: 30
    commands:
      - pytest tests/test_engine.py --shard auto
  - label: {label} report
    key: {label}-report
    depends_on: {label}-engine
    agents: {{queue: cpu}}
    timeout_in_minutes: 5
    commands: [make {label}]
"""


def write(scratch: Any, build: str = "1") -> None:
    files = {
        ".buildkite/presets.yml": PRESETS,
        READY: SUITE.format(label="ready", build="1"),
        MERGE: SUITE.format(label="merge", build=build),
    }
    scratch.write(files)


def test_a_job_of_both_suites_is_one_and_its_weight_is_said(scratch: Any) -> None:
    write(scratch)
    ran = scratch.run("generate", "--all", READY, MERGE)
    assert ran.code == 0, ran.err
    document = yaml.safe_load(ran.out)
    assert document["env"] == {"BUILD": "1"}
    assert [one["label"] for one in document["steps"]] == ["ready engine", "ready report", "merge report"]
    assert [one["depends_on"] for one in document["steps"][1:]] == [["ready-engine"]] * 2
    assert (
        f"note: {MERGE}: 1 step (2 jobs) does what a step of an earlier file does, and is left out: 'merge engine' "
        f"({MERGE}:3) is 'ready engine' ({READY}:3), which a step that waits for 'merge-engine' waits for as "
        "'ready-engine'"
    ) in ran.err


def test_suites_of_another_environment_are_refused_with_both_places(scratch: Any) -> None:
    write(scratch, build="2")
    ran = scratch.run("generate", "--all", READY, MERGE)
    assert ran.code == 2
    assert f"{MERGE}:1: env BUILD is not what {READY}:1 says" in ran.err


def test_files_of_other_presets_are_no_one_upload(scratch: Any) -> None:
    write(scratch)
    scratch.write({".buildkite/amd/presets.yml": PRESETS, ".buildkite/presets.yml": scratch.presets_of("l4")})
    ran = scratch.run("generate", "--all", READY, ".buildkite/cuda/test-ready.yml")
    assert ran.code == 2
    assert "have other presets, policies or templates" in ran.err


@pytest.mark.parametrize("files", [(READY, MERGE), (MERGE, READY)])
def test_the_upload_of_several_files_has_a_folder_of_its_own(scratch: Any, files: tuple[str, str]) -> None:
    write(scratch)
    ran = scratch.run("upload", "--all", *files)
    assert ran.code == 4  # there is no agent here, and the pipeline is written all the same
    names = "-".join(
        name.removeprefix(".buildkite/").removesuffix(".yml").replace("/", "-") for name in files
    )
    text = (scratch.root / ".omni-ci" / names / "pipeline.yml").read_text(encoding="utf-8")
    assert len(yaml.safe_load(text)["steps"]) == 3


def test_a_step_that_waits_for_the_other_suite_is_given_what_runs_of_it(scratch: Any) -> None:
    write(scratch)
    scratch.edit(MERGE, "depends_on: merge-engine", "depends_on: ready-engine")
    ran = scratch.run("generate", READY, MERGE, "--only", "merge-report", "ready-engine")
    assert ran.code == 0, ran.err
    assert [one["label"] for one in yaml.safe_load(ran.out)["steps"]] == ["ready engine", "merge report"]
