from __future__ import annotations


def test_two_steps_that_do_the_same_are_found_with_what_it_costs(asked):
    steps = """
        - label: Engine
          mirror_hardwares: l4_2
          parallelism: 3
          timeout_in_minutes: 20
          commands: ["pytest  tests/engine # all"]
        - label: Other
          mirror_hardwares: l4_2
          parallelism: 3
          timeout_in_minutes: 20
          commands: |
            # the rest
            pytest tests/engine
    """
    (one,) = asked("CI005", steps)
    assert one.message == (
        "step 'Other': does what step 'Engine' at line 2 does, on the same hardware: "
        "3 jobs on 2 cards each, up to 20 minutes for nothing"
    )
    assert (one.subject, one.key) == (".buildkite/cuda/test-ready.yml#other", "engine")


def test_other_commands_hardware_environment_or_condition_make_another_step(found):
    steps = """
        - {label: A, mirror_hardwares: l4_1, commands: [pytest tests]}
        - {label: B, mirror_hardwares: l4_2, commands: [pytest tests]}
        - {label: C, mirror_hardwares: l4_1, commands: [pytest tests -x]}
        - {label: D, mirror_hardwares: l4_1, env: {X: "1"}, commands: [pytest tests]}
        - {label: E, mirror_hardwares: l4_1, if: build.branch == "main", commands: [pytest tests]}
    """
    assert found("CI005", steps) == []
