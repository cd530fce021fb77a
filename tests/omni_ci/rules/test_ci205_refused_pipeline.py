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


def jobs(count: int, more: str = "") -> str:
    rows = (
        f"- {{label: s{at}, key: s{at}, timeout_in_minutes: 5, commands: [make]{more if at else ''}}}"
        for at in range(count)
    )
    return "\n".join(rows)


def test_what_upload_would_divide_is_judged_in_its_uploads(found):
    assert found("CI205", jobs(501, ", depends_on: s0")) == []


def test_what_cannot_be_divided_is_found_where_it_stands(asked):
    first, second = asked("CI205", jobs(501) + "\n- wait\n- {label: z, commands: [make], depends_on: gone}")
    assert (first.line, first.message) == (
        503,
        "503 jobs need several uploads (500 each), and this orders steps by their place; use depends_on",
    )
    assert second.message.startswith("S3 step 'z': depends_on 'gone'")


def test_a_group_whose_pieces_would_wait_for_each_other_is_ordered_first(found):
    """It was refused for a key that "no pipeline file has", which was in the same file."""
    rows = [
        f"    - {{label: s{at}, key: s{at}, timeout_in_minutes: 5, commands: [make]"
        + (f", depends_on: s{(at + 549) % 550}" if at % 5 == 0 and at % 2 else "")
        + "}"
        for at in range(550)
    ]
    steps = (
        "- group: g\n  steps:\n"
        + "\n".join(rows)
        + "\n"
        + jobs(50)
        .replace("s", "t")
        .replace("timeout_in_minutet", "timeout_in_minutes")
        .replace("commandt", "commands")
    )
    assert found("CI205", steps) == []
