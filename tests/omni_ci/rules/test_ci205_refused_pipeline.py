from __future__ import annotations


def test_an_unknown_preset_is_found_and_the_other_steps_are_judged(asked):
    steps = """
        - {label: A, mirror_hardwares: l4_3, timeout_in_minutes: 5, commands: [pytest a]}
        - {label: B, timeout_in_minutes: 5, depends_on: gone, commands: [pytest b]}
    """
    first, second = asked("CI205", steps)
    assert (first.line, first.message) == (
        2,
        (
            "step 'A': cannot be rendered: unknown preset 'l4_3' (did you mean 'l4_4'?); "
            "presets are in .buildkite/presets.yml"
        ),
    )
    assert second.line == 3
    assert second.message.startswith("S3 step 'B': depends_on 'gone', a key no pipeline file has")


def test_hardware_that_cannot_be_read_from_the_marks_is_found(asked):
    steps = """
        - {label: A, timeout_in_minutes: 5, commands: ["pytest a -m 'cuda and L4'"]}
        - {label: B, timeout_in_minutes: 5, commands: ["pytest b -m 'cuda and L4 and cards_2'"]}
    """
    (one,) = asked("CI205", steps)
    assert one.line == 2
    assert "number of cards" in one.message


def test_a_key_in_a_file_of_another_kind_is_known(found):
    steps = "- {label: A, timeout_in_minutes: 5, depends_on: upload, commands: [pytest a]}"
    bootstrap = {".buildkite/bootstrap.yml": "steps:\n  - {label: U, key: upload, command: x}\n"}
    assert found("CI205", steps, bootstrap) == []
