from __future__ import annotations


def test_a_run_that_may_not_fail_is_found(found):
    steps = """
        - label: A
          commands: [pytest tests/a || true, "pytest tests/b || exit 0", "bash -c 'pytest c || echo failed'"]
    """
    assert found("CI404", steps) == [
        "step 'A': forgives failed tests: `pytest … || echo failed` is always 0",
        "step 'A': forgives failed tests: `pytest … || exit 0` is always 0",
        "step 'A': forgives failed tests: `pytest … || true` is always 0",
    ]


def test_another_program_a_kept_status_and_a_second_run_are_fine(found):
    steps = """
        - label: A
          commands: [nvidia-smi || true, "pytest a || rc=$$?; exit $$rc", "pytest b || exit 3", "pytest --lf || pytest c"]
    """
    assert found("CI404", steps) == []
