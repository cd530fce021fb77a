from __future__ import annotations

import pytest

from omni_ci.rules.paths import TestPaths
from omni_ci.shell.runs import pytest_runs

TREE = {
    "tests/test_a.py", "tests/one/test_b.py", "tests/one/c_test.py", "tests/one/helper.py", "tests/two/test_d.py",
    "tools/test_e.py", "check_f.py",
}  # fmt: skip


def reached(command: str, **ini: object) -> list[str]:
    (run,) = pytest_runs(command)
    return sorted(TestPaths.of(TREE, ini).of_run(run).files)


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("pytest tests/one", ["tests/one/c_test.py", "tests/one/test_b.py"]),
        ("pytest tests/one/helper.py", ["tests/one/helper.py"]),
        ("pytest tests/*/test_*.py::test_x", ["tests/one/test_b.py", "tests/two/test_d.py"]),
        ("pytest tests/{one,two}/test_b.py", ["tests/one/test_b.py"]),
        ("pytest tests/$PART/test_d.py", ["tests/two/test_d.py"]),
        ("pytest tests/t*o", ["tests/two/test_d.py"]),
        ("pytest tests --ignore=tests/one --ignore tests/two", ["tests/test_a.py"]),
        ("pytest tests --ignore-glob='tests/*/test_*'", ["tests/one/c_test.py", "tests/test_a.py"]),
        ("pytest tests/two --deselect tests/two/test_d.py::test_x", ["tests/two/test_d.py"]),
        ("cd tests && pytest two", ["tests/two/test_d.py"]),
        ("cd tests/two && pytest", ["tests/two/test_d.py"]),
        ("cd tests && pytest ../tools", ["tools/test_e.py"]),
        ("pytest", [
            "tests/one/c_test.py", "tests/one/test_b.py", "tests/test_a.py", "tests/two/test_d.py", "tools/test_e.py",
        ]),
    ],
)  # fmt: skip
def test_the_files_a_command_reaches(command, files):
    assert reached(command) == files


def test_pytests_own_settings_count():
    assert reached("pytest", testpaths=["tests/two"]) == ["tests/two/test_d.py"]
    assert reached("pytest .", python_files="check_*.py") == ["check_f.py"]
