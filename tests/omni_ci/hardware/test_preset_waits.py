"""What a preset has its steps wait for is known to all who ask who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.preset_waits import with_preset_waits
from omni_ci.hardware.presets import load_presets
from omni_ci.rendering.steps import Rendered, render
from omni_ci.selection.only import named_steps
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_hardware.errors import InputError

PRESETS = load_presets(
    """
schema: 1
skus:
  l4:
    {platform: cuda, sku: L4, template: k8s-spec, cards: [1], queue: q, resource: nvidia.com/gpu, depends_on: image}
""",
    name="presets.yml",
)
STEPS = """\
steps:
  - {label: image, key: image, commands: [make image]}
  - {label: lint, key: lint, commands: [make lint]}
  - wait
  - {label: test, key: test, mirror_hardwares: l4_1, commands: [pytest]}
"""


def loaded(text: str) -> PipelineFile:
    return with_preset_waits(load_pipeline(text, name="a.yml"), PRESETS)


def rendered(text: str, *runs: str) -> Rendered:
    rules = PodRules(secrets={}, infra_retry=[{"exit_status": -1, "limit": 1}])
    equipment = Equipment(presets=PRESETS, pods=Pods(package_templates(), rules))
    return render(loaded(text), equipment, runs=runs or None)


def waits(made: Rendered) -> Any:
    return made.document["steps"][-1].get("depends_on")


def test_a_step_still_waits_for_what_it_stands_behind() -> None:
    """Buildkite lets a step with a `depends_on` go past the `wait` before it."""
    made = rendered(STEPS)
    assert waits(made) == ["image", "lint"]
    assert made.notices == (
        "a.yml:5: 'test' waits for lint by key, since with the `depends_on` of its preset its place no longer holds it",
    )


def test_a_step_without_a_key_cannot_be_waited_for() -> None:
    text = STEPS.replace(", key: lint", "")
    with pytest.raises(
        InputError, match=r"a\.yml:5: 'test' waits for 'lint' since with .* no key to wait for"
    ):
        rendered(text)


def test_a_step_that_says_what_it_waits_for_has_no_place() -> None:
    made = rendered(STEPS.replace("key: test", "key: test, depends_on: [lint]"))
    assert waits(made) == ["lint", "image"]
    assert made.notices == ()
    assert waits(rendered(STEPS.replace("key: test", "key: test, depends_on: [image]"))) == ["image"]


def test_where_the_step_it_names_does_not_run_its_place_holds_it() -> None:
    made = rendered(STEPS, "lint", "wait", "test")
    assert [one if isinstance(one, str) else one["key"] for one in made.document["steps"]] == [
        "lint",
        "wait",
        "test",
    ]
    assert waits(made) is None
    assert made.notices == ("a.yml:5: 'test' does not wait for image, which does not run",)


def test_what_the_step_it_names_waited_for_is_inherited() -> None:
    text = STEPS.replace("key: image,", "key: image, depends_on: [base],").replace(
        "steps:", "steps:\n  - {label: base, key: base, commands: [make base]}"
    )
    assert waits(rendered(text, "base", "test")) == ["base"]


def test_a_step_asked_for_by_name_takes_the_step_its_preset_names_along() -> None:
    asked = named_steps(["test"], [loaded(STEPS)], tuple)
    assert {name: runs for name, (runs, _) in asked.decided.items()} == {
        "a.yml#image": True,
        "a.yml#lint": False,
        "a.yml#wait": False,
        "a.yml#test": True,
    }


def test_the_step_a_preset_names_does_not_wait_for_itself() -> None:
    text = "steps:\n  - {label: image, key: image, mirror_hardwares: l4_1, commands: [make]}\n"
    assert waits(rendered(text)) is None


@pytest.mark.parametrize(
    ("before", "waiting"),
    [("", ["image-build"]), ("  - {label: a, key: a, commands: [x]}\n  - wait\n", None)],
)
def test_a_pool_of_the_package_adds_nothing_behind_a_wait(before: str, waiting: list[str] | None) -> None:
    text = f"steps:\n{before}  - {{label: t, key: t, mirror_hardwares: mi250_4, commands: [pytest]}}\n"
    assert waits(rendered(text)) == waiting
    assert waits(rendered(text.replace("key: t", "key: t, depends_on: []"))) == ["image-build"]


def test_an_unknown_preset_brings_nothing() -> None:
    pipeline = load_pipeline(STEPS.replace("l4_1", "l5_1"), name="a.yml")
    assert with_preset_waits(pipeline, PRESETS) is pipeline
