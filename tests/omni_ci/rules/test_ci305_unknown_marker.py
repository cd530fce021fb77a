from __future__ import annotations

TEST = "import pytest\n@pytest.mark.core_model\n@pytest.mark.cpu\n@pytest.mark.forked\ndef test_a(): pass\n"
STEPS = "- {{label: A, commands: [\"pytest {paths} -m '{marks}'\", \"pytest {paths} -m '{marks}'\"]}}"


def test_a_misspelled_marker_is_found_once_a_step_with_the_nearest(found):
    steps = STEPS.format(paths="tests", marks="core_modle and not slwo")
    assert found("CI305", steps, {"tests/test_a.py": TEST}) == [
        "step 'A': -m 'core_modle and not slwo': column 1: no marker is called 'core_modle' (did you mean 'core_model'?)",
        "step 'A': -m 'core_modle and not slwo': column 20: no marker is called 'slwo' (did you mean 'slow'?)",
    ]


def test_markers_of_the_project_its_settings_and_its_tests_exist(found):
    files = {
        "tests/test_a.py": TEST,
        "pyproject.toml": "[tool.omni]\nmarks = ['smoke']\n[tool.pytest.ini_options]\nmarkers = ['process: x']\n",
        "tests/conftest.py": "def pytest_configure(config):\n    config.addinivalue_line('markers', 'added: x')\n",
    }
    steps = STEPS.format(
        paths="tests/test_a.py", marks="smoke or process or forked or added or not (cpu or cards_2)"
    )
    assert found("CI305", steps, files) == []


def test_tests_that_are_not_here_have_marks_of_their_own(found):
    steps = STEPS.format(paths="elsewhere/tests", marks="theirs")
    assert found("CI305", steps, {"tests/test_a.py": TEST}) == []
    assert found("CI305", STEPS.format(paths="tests", marks="$$MARK"), {"tests/test_a.py": TEST}) == []
