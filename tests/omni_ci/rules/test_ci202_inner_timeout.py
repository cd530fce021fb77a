from __future__ import annotations


def test_a_step_that_only_its_commands_bound_is_found_with_the_minutes(found):
    steps = """
        - label: A
          commands:
            - timeout --signal=TERM --kill-after=2m 35m pytest tests/a
            - |
              timeout 1h bash -c "
                export X=1
                pytest tests/b
              "
    """
    assert found("CI202", steps) == [
        "step 'A': is bounded by `timeout 35m` and `timeout 1h` alone; write timeout_in_minutes: 95"
    ]


def test_a_timeout_that_cannot_end_anything_is_found(found):
    steps = "- {label: A, timeout_in_minutes: 40, commands: ['timeout 40m pytest tests']}"
    assert found("CI202", steps) == [
        "step 'A': `timeout 40m` never ends anything: the step itself ends after 40 minutes"
    ]


def test_a_shorter_one_in_a_step_with_a_timeout_and_one_around_no_test_are_fine(found):
    steps = """
        - {label: A, timeout_in_minutes: 90, commands: ['timeout 40m pytest a', 'timeout 40 pytest b']}
        - {label: B, commands: ['timeout 5m curl https://example.org', 'timeout "$$T" true']}
    """
    assert found("CI202", steps) == []
