"""A gate goes along only where it still parts, or holds back, steps that run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omni_ci.policy import default_policy
from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.judging import Evidence, Selection, judge
from omni_ci.yaml.loading import load_pipeline

GO = {"block": "Go", "key": "go"}


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"label": name, "key": name, "command": "make", "source_file_dependencies": [f"{name}/"], **more}


def select(steps: list[Any], *changed: str) -> Selection:
    pipeline = load_pipeline(json.dumps({"steps": steps}), name="p.yml")
    changes = ChangeSet(known=True, files=tuple(f"{name}/x.py" for name in changed), base="b", head="a")
    tree = frozenset(f"{name}/x.py" for name in ("unit", "gpu", "a", "b"))
    return judge([pipeline], Evidence(changes=changes, policy=default_policy(), tree=tree))


@pytest.mark.parametrize(
    ("steps", "changed", "running"),
    [
        ([step("unit"), GO, step("gpu")], ["unit"], {"unit"}),
        ([step("unit"), GO, step("gpu")], ["gpu"], {"go", "gpu"}),
        ([step("unit"), "wait", step("gpu")], ["unit"], {"unit"}),
        ([step("unit"), "wait", step("gpu")], ["gpu"], {"gpu"}),
        ([step("unit"), "wait", step("gpu")], ["unit", "gpu"], {"unit", "wait", "gpu"}),
        ([step("unit"), {"group": "G", "steps": [GO, step("a")]}], ["unit"], {"unit"}),
        ([step("unit"), {"group": "G", "steps": [step("b"), "wait", step("a")]}], ["b"], {"b"}),
        ([step("unit"), "wait", {"group": "G", "steps": [step("a")]}], ["unit", "a"], {"unit", "wait", "a"}),
        ([step("unit", depends_on="go"), step("gpu"), GO], ["unit"], {"unit", "go"}),
        ([step("unit", depends_on="gpu"), step("gpu", depends_on="go"), GO], ["unit"], {"unit", "go"}),
        ([step("unit"), step("gpu"), GO], ["unit"], {"unit"}),
        ([step("unit"), GO], ["unit"], {"unit", "go"}),
    ],
)
def test_gates_without_steps_around_them_go(steps: list[Any], changed: list[str], running: set[str]) -> None:
    assert select(steps, *changed).running("p.yml") == running


def test_a_gate_left_out_is_said_with_its_reason() -> None:
    selection = select([step("unit"), GO, step("gpu")], "unit")
    assert selection.notices == (
        "p.yml:1: step 'Go' (block) is left out: no step that runs stands behind it",
    )
    assert select([step("unit"), GO, step("gpu")]).notices == ()


def test_a_bare_wait_left_out_is_said_at_its_place() -> None:
    text = "steps:\n  - {label: unit, key: unit, command: x, source_file_dependencies: [unit/]}\n  - wait\n"
    text += "  - {label: gpu, key: gpu, command: x, source_file_dependencies: [gpu/]}\n"
    changes = ChangeSet(known=True, files=("unit/x.py",), base="b", head="a")
    selection = judge([load_pipeline(text, name="p.yml")], Evidence(changes=changes, policy=default_policy()))
    assert selection.notices == (
        "p.yml:3: step 'wait' (wait) is left out: no step that runs stands behind it",
    )
