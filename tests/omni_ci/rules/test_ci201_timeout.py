from __future__ import annotations


def test_a_step_without_a_timeout_is_found(found):
    steps = """
        - {label: A, commands: [pytest tests]}
        - {label: B, commands: ["timeout 5m pytest tests/a", pytest tests/b]}
        - {label: C, plugins: [{docker#v5: {image: x}}]}
    """
    no = "has no timeout_in_minutes: a hang holds its machine for good"
    assert found("CI201", steps) == [f"step 'A': {no}", f"step 'B': {no}", f"step 'C': {no}"]


def test_a_step_with_one_and_what_other_rules_say_is_fine(found):
    steps = """
        - {label: A, timeout_in_minutes: 5, commands: [pytest tests]}
        - {label: B, commands: ["timeout 5m pytest tests/a"]}
        - {label: C, commands: ["scripts/run_cov_split.sh --model-id x --offline tests/a"]}
        - wait
    """
    assert found("CI201", steps) == []
