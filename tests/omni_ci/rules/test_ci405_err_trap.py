from __future__ import annotations

AMD = ".buildkite/amd/test-ready.yml"
STEPS = "steps:\n- {{label: A, mirror_hardwares: mi300_1, commands: [\"trap 'echo bad' {signal}\", pytest tests]}}\n"


def test_a_trap_in_the_place_of_the_runners_is_found(found):
    assert found("CI405", "", {AMD: STEPS.format(signal="ERR")}) == [
        "step 'A': sets a trap on ERR, which takes the place of the runner's; use EXIT"
    ]


def test_a_trap_on_exit_and_a_step_without_a_runner_are_fine(found):
    assert found("CI405", "", {AMD: STEPS.format(signal="EXIT")}) == []
    assert found("CI405", "- {label: A, commands: [\"trap 'echo bad' ERR\", pytest tests]}") == []
