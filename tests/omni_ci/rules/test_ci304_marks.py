from __future__ import annotations

STEPS = "- {label: A, commands: [pytest tests]}"
WRONG = "import pytest\n\n@pytest.mark.H100\ndef test_a(): pass\n"


def test_contradictory_marks_are_found_where_the_plugin_is_armed(asked):
    (one,) = asked("CI304", STEPS, {"tests/test_a.py": WRONG, "pyproject.toml": "[tool.omni]\n"})
    assert (one.file, one.line) == ("tests/test_a.py", 3)
    assert one.message.startswith("H100 without a number of cards; add cards_1")


def test_marks_that_agree_and_a_project_of_another_plugin_are_fine(found):
    right = WRONG.replace("def test_a", "@pytest.mark.cards_1\ndef test_a")
    assert found("CI304", STEPS, {"tests/test_a.py": right, "pyproject.toml": "[tool.omni]\n"}) == []
    assert found("CI304", STEPS, {"tests/test_a.py": WRONG, "pyproject.toml": ""}) == []
