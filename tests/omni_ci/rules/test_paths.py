from __future__ import annotations

import pytest

from omni_ci.repository.pytest_settings import PytestSettings
from omni_ci.repository.watching import NO_LINKS, Links, PathIndex
from omni_ci.rules.paths import TestPaths
from omni_ci.shell.runs import pytest_runs

TREE = {
    "tests/test_a.py", "tests/one/test_b.py", "tests/one/c_test.py", "tests/one/helper.py", "tests/two/test_d.py",
    "tools/test_e.py", "check_f.py",
}  # fmt: skip


def paths(files=None, tree=TREE, links=NO_LINKS) -> TestPaths:
    settings = PytestSettings((files or {}).get)
    return TestPaths(names=tree, index=PathIndex(links.names(tree)), settings=settings, links=links)


def reached(command: str, files=None, **more: object) -> list[str]:
    (run,) = pytest_runs(command)
    return sorted(paths(files, **more).of_run(run).files)


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
    two = {"pytest.ini": "[pytest]\ntestpaths = tests/two\npython_files = check_*.py test_*.py\n"}
    assert reached("pytest", two) == ["tests/two/test_d.py"]
    assert "check_f.py" in reached("pytest .", two)
    assert paths(two).tests == ("tests/two/test_d.py",)


def test_addopts_leave_out_what_the_command_line_would():
    told = {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['--ignore=tests/one', '--deselect=tests/two']\n"
    }
    assert reached("pytest tests", told) == ["tests/test_a.py"]


def test_a_file_that_is_named_is_not_ignored():
    assert reached("pytest tests/one/test_b.py --ignore=tests/one") == ["tests/one/test_b.py"]


def test_a_run_in_a_folder_of_the_machine_is_read_from_the_root_and_is_not_exact():
    (run,) = pytest_runs("cd /app/project && pytest tests/two /app/project/tests/test_a.py")
    found = paths().of_run(run)
    assert sorted(found.files) == ["tests/test_a.py", "tests/two/test_d.py"]
    assert not found.is_exact


def test_a_path_through_a_link_is_the_file_it_leads_to():
    links = Links(targets={"suite": "tests/one"})
    assert reached("pytest suite/test_b.py", links=links) == ["tests/one/test_b.py"]


def test_what_is_missing():
    (run,) = pytest_runs("pytest tests/gone.py third_party/tests gone tests/a.yaml $MORE")
    links = Links(submodules=frozenset({"third_party"}))
    assert paths(links=links).of_run(run).missing == ("tests/gone.py", "gone")
