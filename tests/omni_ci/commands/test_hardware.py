"""Steps whose hardware is not there: out of every selection, with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"
ROW = """\
  h100:
    platform: cuda
    sku: H100
    template: k8s-spec
    cards: [1]
    queue: h100
    resource: nvidia.com/gpu
"""
STEPS = """\
steps:
  - {label: Marked, key: marked, commands: ["pytest tests/test_engine.py -m 'cuda and L4 and cards_1'"], source_file_dependencies: [src/]}
  - {label: Both, key: both, commands: ["pytest tests/test_engine.py -m 'cuda and (L4 or H100) and cards_1'"], source_file_dependencies: [src/]}
  - {label: Plain, key: plain, agents: {queue: cpu}, commands: [make], source_file_dependencies: [src/]}
"""


@pytest.fixture
def marked(scratch: Any) -> Any:
    scratch.write({".buildkite/presets.yml": scratch.presets_of("l4") + ROW})
    scratch.commit({PIPELINE: STEPS})
    return scratch


def steps(scratch: Any, *arguments: str) -> dict[str, dict[str, Any]]:
    ran = scratch.run("plan", *arguments, "--format", "json")
    assert ran.code == 0, ran.err
    return {step["key"]: step for step in json.loads(ran.out)["steps"]}


def test_a_step_gets_its_hardware_from_its_marks(marked: Any) -> None:
    found = steps(marked, "--all")
    assert [(found[key]["preset"], found[key]["cards"]) for key in ("marked", "both", "plain")] == [
        ("l4_1", 1), ("h100_1", 1), (None, None),
    ]  # fmt: skip
    document = yaml.safe_load(marked.run("generate", PIPELINE, "--all").out)
    assert document["steps"][1]["agents"]["queue"] == "h100"


@pytest.mark.parametrize(
    "mode", [["--all"], ["--changed", "src/x.py"], ["--base", "nowhere"], ["--only", "both"]]
)
def test_what_cannot_run_on_the_mirror_stays_out_and_says_so(
    marked: Any, monkeypatch: pytest.MonkeyPatch, mode: list[str]
) -> None:
    monkeypatch.setenv("MIRROR_HW", "h100")
    found = steps(marked, *mode)
    assert (found["marked"]["runs"], found["marked"]["rule"]) == (False, "hardware")
    assert found["marked"]["because"] == "MIRROR_HW=h100, and its -m does not name H100"
    assert found["both"]["runs"]
    assert "1 step cannot run on the hardware asked for" in marked.run("plan", *mode).err


def test_a_step_asked_for_by_name_that_cannot_run_is_an_error(
    marked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_HW", "h100")
    ran = marked.run("plan", "--only", "marked")
    assert ran.code == 2
    assert f"{PIPELINE}#marked was asked for with --only and cannot run: MIRROR_HW=h100" in ran.err


def test_marks_that_lead_to_other_hardware_are_another_definition(marked: Any) -> None:
    marked.edit(PIPELINE, "cuda and L4 and cards_1", "cuda and L4 and cards_2")
    marked.commit()
    found = steps(marked)
    assert found["marked"]["rule"] == "self"
    assert "its definition changed (commands, plugins)" in found["marked"]["because"]
    assert found["both"]["runs"] is False
    # and so is a preset that marks lead to now
    marked.edit(".buildkite/presets.yml", "queue: h100", "queue: other")
    marked.commit()
    assert steps(marked)["both"]["because"] == "its definition changed (agents)"


def test_an_unknown_mirror_is_refused(marked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_HW", "h10")
    ran = marked.run("plan", "--all")
    assert ran.code == 2
    assert "MIRROR_HW=h10" in ran.err


def test_the_projects_own_markers_select_its_tests(scratch: Any) -> None:
    scratch.write(
        {
            "pyproject.toml": '[tool.omni]\n[tool.pytest.ini_options]\nmarkers = ["process: forks"]\n',
            PIPELINE: "steps:\n  - {label: One, key: one, tests: {paths: tests/test_a.py, marks: not process}}\n",
            "tests/test_a.py": "",
        }
    )
    assert scratch.run("plan", PIPELINE, "--all").code == 0
    scratch.write({"pyproject.toml": "[tool.omni]\n"})
    refused = scratch.run("plan", PIPELINE, "--all")
    assert refused.code == 2
    assert "'process'" in refused.err
