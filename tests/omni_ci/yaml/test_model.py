"""The step models, built without a document."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

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
