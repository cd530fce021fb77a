"""The step models, built without a document."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from omni_ci.yaml.kinds import plain_kind
from omni_ci.yaml.model import Group, PipelineFile, PlainStep, Step, slug, step_id


def test_models_can_be_built_from_values() -> None:
    step = Step.model_validate({"label": "One", "command": "a", "env": {"A": 1, "B": True}, "if": "x"})
    wait = PlainStep.model_validate({"wait": None})
    pipeline = PipelineFile(steps=(Group(group="g", steps=(step, wait)),))
    assert [leaf.ident for _, leaf in pipeline.leaves()] == ["one", "wait"]
    assert step.env == {"A": "1", "B": "true"}
    assert step.if_ == "x"
    assert wait.is_gate
    assert not PlainStep.model_validate({"trigger": "t"}).is_gate


def test_models_are_frozen_and_refuse_unknown_names() -> None:
    step = Step(commands=("a",))
    with pytest.raises(ValidationError):
        setattr(step, "label", "x")  # noqa: B010 - the type checker refuses the plain form
    with pytest.raises(ValidationError):
        Step.model_validate({"comand": "a"})


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("Diffusion · Z-Image Test", "diffusion-z-image-test"),
        (":docker: Build image", "build-image"),
        ("Shard %N/%t", "shard"),
        ("測試 é", "測試-é"),
        ("···", ""),
    ],
)
def test_slugs(label: str, name: str) -> None:
    assert slug(label) == name


def test_a_step_without_key_and_label_still_has_a_name() -> None:
    pipeline = PipelineFile.model_validate({"steps": [{"command": "a"}, {"command": "b", "label": "·"}]})
    assert [leaf.ident for _, leaf in pipeline.leaves()] == ["step", "step-2"]


def test_the_name_across_files() -> None:
    assert step_id("cuda/test-merge.yml", "bagel") == "cuda/test-merge.yml#bagel"


@pytest.mark.parametrize(
    ("step", "kind", "is_gate", "is_wait", "divides"),
    [
        ("wait", "wait", True, True, True),
        ({"waiter": None}, "waiter", True, True, True),
        ({"block": "Go"}, "block", True, False, True),
        ({"manual": "Go"}, "manual", True, False, True),
        ({"input": "Name?"}, "input", True, False, False),
        ({"trigger": "other"}, "trigger", False, False, False),
        ({"command": "x"}, None, False, False, False),
        ({"group": "g", "steps": [{"command": "x"}]}, None, False, False, False),
    ],
)
def test_what_a_step_is_to_those_around_it(step, kind, is_gate, is_wait, divides):
    assert plain_kind(step) == kind
    (part,) = PipelineFile.model_validate({"steps": [step]}).steps
    assert (part.is_gate, part.is_wait, part.divides, part.goes_along) == (is_gate, is_wait, divides, is_gate)


def test_a_gate_that_says_what_concerns_it_does_not_go_along():
    (gate,) = PipelineFile.model_validate(
        {"steps": [{"block": "Go", "source_file_dependencies": ["a/"]}]}
    ).steps
    assert (gate.is_gate, gate.goes_along) == (True, False)
