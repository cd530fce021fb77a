from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ("cuda and H100 and cards_1", "-m names H100, for which .buildkite/presets.yml has no cuda presets"),
        ("MI300 and cards_1", "-m names MI300, for which .buildkite/presets.yml has no cuda presets"),
        (
            "(H100 or B200) and cards_2",
            "-m names B200, H100, for which .buildkite/presets.yml has no cuda presets",
        ),
        ("cuda and cards_2", "-m names a number of cards but no SKU"),
    ],
)
def test_a_step_that_no_build_can_run_is_found(found, marks, said):
    steps = f"- {{label: A, commands: [\"pytest tests -m '{marks}'\"]}}"
    assert found("CI306", steps) == [f"step 'A': {said}, so that no build runs it"]


def test_a_presets_file_that_is_not_there_is_told_for_every_step(found):
    (said,) = found(
        "CI306",
        "- {label: A, commands: [\"pytest a -m 'L4 and cards_1'\"]}",
        {".buildkite/presets.yml": "schema: 1\n"},
    )
    assert "-m names L4, for which .buildkite/presets.yml has no cuda presets" in said


@pytest.mark.parametrize(
    "step",
    [
        "commands: [\"pytest tests -m '(H100 or L4) and cards_1'\"]",
        "commands: [\"pytest tests -m 'core_model and cpu and not H100'\"]",
        "mirror_hardwares: l4_1, commands: [\"pytest tests -m 'H100 and cards_1'\"]",
        "agents: {queue: own}, commands: [\"pytest tests -m 'H100 and cards_1'\"]",
        "commands: [make]",
    ],
)
def test_other_steps_are_fine(found, step):
    assert found("CI306", f"- {{label: A, {step}}}") == []


def test_hardware_that_is_on_demand_only_is_there(found):
    presets = (
        "skus: {b200: {platform: cuda, sku: B200, template: k8s-spec, cards: [1], queue: q, resource: r}}\n"
    )
    steps = "- {label: A, commands: [\"pytest tests -m 'B200 and cards_1'\"]}"
    assert found("CI306", steps, {".buildkite/presets.yml": presets}) == []
