from __future__ import annotations


def test_a_command_whose_failure_export_hides_is_found(found):
    steps = """
        - label: A
          commands:
            - |
              set -eu
              export LORA=$(python -c 'print(1)')
              pytest tests
            - bash -c "export OTHER=`hostname`; pytest tests"
    """
    assert found("CI401", steps) == [
        "step 'A': `export LORA=$(…)` hides a failure: write `LORA=$(…)`, then `export LORA`",
        "step 'A': `export OTHER=$(…)` hides a failure: write `OTHER=$(…)`, then `export OTHER`",
    ]


def test_an_assignment_of_its_own_a_plain_value_and_arithmetic_are_fine(found):
    steps = """
        - label: A
          commands:
            - LORA=$(python -c 'print(1)')
            - export LORA
            - export X=1 Y="$$X" Z=$((1+1))
            - echo "$(date)"
    """
    assert found("CI401", steps) == []
