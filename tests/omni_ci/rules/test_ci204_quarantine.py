from __future__ import annotations

from datetime import date

TODAY = date(2026, 12, 1)
NO_ISSUE = (
    "no comment names the issue it waits for, as in `# quarantined: https://…/issues/12 until 2027-01-31`"
)


def test_a_step_that_does_not_block_without_a_word_is_found(found):
    steps = """
        # https://github.com/o/r/issues/1 until 2027-01-31, but of the step below it
        - {label: Other, commands: [pytest a]}
        - {label: A, soft_fail: true, commands: [pytest a]}
        - {label: B, soft_fail: [{exit_status: 1}], commands: [pytest b]}
    """
    assert found("CI204", steps, today=TODAY) == [
        f"step 'A': does not block (soft_fail), and {NO_ISSUE}",
        f"step 'B': does not block (soft_fail), and {NO_ISSUE}",
    ]


def test_an_issue_without_an_end_and_an_end_that_is_past_are_found(found):
    steps = """
        # quarantined: o/r#12
        - {label: A, soft_fail: true, commands: [pytest a]}
        - label: B
          soft_fail: true  # https://github.com/o/r/issues/3 until 2026-11-30
          commands: [pytest b]
        # o/r#4 until 2026-13-40
        - {label: C, soft_fail: true, commands: [pytest c]}
    """
    assert found("CI204", steps, today=TODAY) == [
        "step 'A': does not block (soft_fail), and no comment says until when, as in `until 2027-01-31`",
        "step 'B': does not block (soft_fail), and its quarantine ended on 2026-11-30",
        "step 'C': does not block (soft_fail), and 2026-13-40 is no day",
    ]


def test_a_quarantine_that_lasts_and_a_tolerated_infrastructure_status_are_fine(found):
    steps = """
        - group: Flaky
          steps:
            # Sound is noise on this card.
            # quarantined: https://github.com/o/r/issues/12 until 2026-12-01
            - {label: A, soft_fail: true, commands: [pytest a]}
            - {label: B, soft_fail: [{exit_status: -1}], commands: [pytest b]}
            - {label: C, soft_fail: false, commands: [pytest c]}
            - {label: D, soft_fail: true, commands: [make docs]}
    """
    assert found("CI204", steps, today=TODAY) == []
