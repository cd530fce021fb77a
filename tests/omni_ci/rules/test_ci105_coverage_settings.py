from __future__ import annotations

STEPS = '- {label: Bagel, commands: ["scripts/run_cov_split.sh --model-id bagel --online tests/a.py"]}'
RIGHT = """\
[tool.other]
[tool.coverage.run]
source = ["omni"]
patch = ["subprocess", "_exit"]
sigterm = true
concurrency = ["multiprocessing", "thread"]
"""


def test_each_missing_setting_is_found_at_the_table(asked):
    text = '[tool.other]\n[tool.coverage.run]\nconcurrency = ["thread"]\n'
    found = asked("CI105", STEPS, {"pyproject.toml": text})
    assert [(one.file, one.line, one.key) for one in found] == [
        ("pyproject.toml", 2, "concurrency"),
        ("pyproject.toml", 2, "patch"),
        ("pyproject.toml", 2, "sigterm"),
        ("pyproject.toml", 2, "source"),
    ]
    assert found[1].message == (
        "[tool.coverage.run] lacks patch = [\"subprocess\"], and 'Bagel' measures processes that tests start"
    )


def test_the_right_settings_a_source_on_the_command_line_and_no_pilot_are_fine(found):
    assert found("CI105", STEPS, {"pyproject.toml": RIGHT}) == []
    without = {"pyproject.toml": RIGHT.replace('source = ["omni"]\n', "")}
    assert found("CI105", STEPS.replace("tests/a.py", "tests/a.py -- --cov=omni"), without) == []
    assert (
        found("CI105", "- {label: A, commands: [pytest]}", {"pyproject.toml": "[tool.coverage.run]\n"}) == []
    )
    assert found("CI105", STEPS, {"pyproject.toml": ""}) == []
