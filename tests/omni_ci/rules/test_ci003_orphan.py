from __future__ import annotations

TEST = "def test_a(): pass\n"


def test_vllm53959_a_test_file_that_no_step_runs_is_listed(asked):
    """Sixteen test files lay at the root of tests/, and every step named other ones."""
    steps = "- {label: Engine, commands: [pytest tests/engine]}"
    files = {"tests/engine/test_core.py": TEST, "tests/test_root.py": TEST}
    (one,) = asked("CI003", steps, files)
    assert (one.file, one.line, one.message) == (
        "tests/test_root.py", 1, "no step of any pipeline runs this test file",
    )  # fmt: skip


def test_every_way_to_name_a_file_reaches_it(found):
    steps = """
        - label: All
          commands:
            - pytest tests/one/test_a.py::test_a
            - (cd tests && pytest two)
            - timeout 5m bash -c 'pytest tests/th*e'
            - bash scripts/more.sh
            - scripts/run_cov_split.sh --model-id m --offline tests/four --online tests/five/test_a.py
    """
    names = ("one", "two", "three", "four", "five", "six")
    files = {f"tests/{name}/test_a.py": TEST for name in names} | {"scripts/more.sh": "pytest tests/six\n"}
    assert found("CI003", steps, files) == []


def test_what_a_run_ignores_is_not_reached(found):
    steps = "- {label: All, commands: [pytest tests --ignore=tests/two]}"
    files = {"tests/one/test_a.py": TEST, "tests/two/test_a.py": TEST}
    assert len(found("CI003", steps, files)) == 1


def test_a_file_without_a_test_and_one_outside_of_testpaths_are_none(found):
    steps = "- {label: All, commands: [pytest tests/one]}"
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
        "tests/one/test_a.py": TEST,
        "tests/two/test_data.py": "X = 1\n",
        "tools/test_tool.py": TEST,
    }
    assert found("CI003", steps, files) == []


def test_a_file_whose_tests_every_step_leaves_out_is_listed(found):
    steps = """
        - {label: A, agents: {queue: x}, commands: [pytest tests -m core_model]}
        - {label: B, agents: {queue: x}, commands: [pytest tests/test_a.py -m "slow and cuda"]}
    """
    marked = "import pytest\npytestmark = pytest.mark.{mark}\ndef test_a(): pass\n"
    files = {
        "tests/test_a.py": marked.format(mark="slow"),
        "tests/test_b.py": marked.format(mark="core_model"),
    }
    assert found("CI003", steps, files) == [
        "no step selects a test of this file: those that reach it have -m 'core_model', 'slow and cuda'"
    ]
    unread = "from marks import some\n@some\ndef test_a(): pass\n"
    assert found("CI003", steps, files | {"tests/test_a.py": unread}) == []
