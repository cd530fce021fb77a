"""What a reader should know about the files beside the pipelines."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from omni_ci.configuration import load_configuration
from omni_ci.repository.places import Tree


def notices(root: Path, *pipelines: str, policy: str | None = None) -> tuple[str, ...]:
    files = {".buildkite/presets.yml": "schema: 1\n"} | ({".buildkite/policy.yml": policy} if policy else {})
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return load_configuration(Tree(root), pipelines).notices


def test_a_folder_that_is_no_platforms_is_told_once(tmp_path: Path) -> None:
    (said,) = notices(tmp_path, ".buildkite/gpu/test-ready.yml", ".buildkite/gpu/test-merge.yml")
    assert said == (
        ".buildkite/gpu/: omni_ci/data/policy.yml has no platform whose folder is 'gpu' (it has amd, cuda, npu, intel, "
        "cpu), so that presets of any platform are taken; add `platforms: {gpu: …}` to .buildkite/policy.yml, such as "
        "gpu: cuda"
    )
    (said,) = notices(tmp_path, ".buildkite/cudda/test-ready.yml", policy="platforms: {gpu: cuda}")
    assert said.startswith(
        ".buildkite/cudda/: .buildkite/policy.yml has no platform whose folder is 'cudda' (it has "
    )


@pytest.mark.parametrize(
    "pipeline", [".buildkite/cuda/test-ready.yml", ".buildkite/x.yml", "ci/gpu/pipeline.yml"]
)
def test_other_folders_are_not(tmp_path: Path, pipeline: str) -> None:
    assert notices(tmp_path, pipeline) == ()


def test_a_folder_that_policy_places_is_fine(tmp_path: Path) -> None:
    assert notices(tmp_path, ".buildkite/gpu/test-ready.yml", policy="platforms: {gpu: cuda}") == ()
