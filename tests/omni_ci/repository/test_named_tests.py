"""Where a pytest run takes its tests from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omni_ci.repository.named_tests import Named, named_tests
from omni_ci.repository.pytest_settings import NO_SETTINGS, PytestSettings
from omni_ci.repository.watching import PathIndex
from omni_ci.shell.runs import pytest_runs

TREE = PathIndex(
    [
        "tests/test_a.py",
        "tests/foo/test_b.py",
        "tests/data/x.json",
        "pkg/tests/a.py",
        "pkg/pytest.ini",
        "tools/test_c.py",
    ]
)
INI = {
    "pytest.ini": "[pytest]\ntestpaths = tests\n",
    "pkg/pytest.ini": "[pytest]\naddopts = --ignore=tests/a.py\n",
}


def named(command: str, files: dict[str, str] | None = None, index: PathIndex = TREE) -> Named:
    (run,) = pytest_runs(command)
    return named_tests(run, PytestSettings((files or {}).get), index)


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("pytest tests/", ["tests"]),
        ("pytest ./tests/test_a.py::test_x[1]", ["tests/test_a.py"]),
        ("cd pkg && pytest tests/a.py", ["pkg/tests/a.py"]),
        ("cd pkg && pytest tests/test_a.py", ["pkg/tests/test_a.py", "tests/test_a.py"]),
        ("cd pkg && pytest ../tests", ["tests"]),
        ("cd /app/omni && pytest tests/test_a.py", ["tests/test_a.py"]),
        ("pytest /app/omni/tests/foo", ["tests/foo"]),
        ("pytest tests/*.py 'tests/b/*.py'", ["tests/*.py", "tests/b/*.py"]),
        ("pytest tests/$A/${B}_test.py", ["tests/**/**_test.py"]),
        ("cd pkg && pytest $A/test_a.py", ["**/test_a.py"]),
        (
            "pytest tests/{foo,bar}/ x/{a,b{c,d}}.py",
            ["tests/foo", "tests/bar", "x/a.py", "x/bc.py", "x/bd.py"],
        ),
        ("pytest tests/{1..4}/a.py", ["tests/*/a.py"]),
        ("cd tests/foo && pytest -v -m x", ["tests/foo"]),
        ("cd tests && cd foo/.. && pytest", ["tests"]),
        ("pytest tests --config tests/data/x.json", ["tests", "tests/data/x.json"]),
        ("pytest", [""]),
        ("pytest .", [""]),
        # the value of an option that is not pytest's own may be a path, and then no path to tests was given
        ("pytest --durations-path tests/data/x.json", ["tests/data/x.json", ""]),
        ("pytest --alluredir tools", ["tools", ""]),
        ("pytest --strict-markers tools", ["tools"]),
        ("pytest -c pkg/pytest.ini tests", ["tests", "pkg/pytest.ini"]),
        ("cd pkg && pytest --config-file=pytest.ini tests/a.py", ["pkg/tests/a.py", "pkg/pytest.ini"]),
        ("pytest --alluredir tools tests/test_a.py", ["tools", "tests/test_a.py"]),
        ("pytest --config out/y.yaml", ["out/y.yaml", ""]),
        ("pytest --folder out/reports", ["out/reports", ""]),
        ("cd $HOME && pytest", [""]),
        ("pytest --pyargs pkg.tests", [""]),
        ("run_cov_split.sh --model-id z", []),
        ("run_cov_split.sh --model-id $M --offline tests/test_a.py -- $ARGS", ["tests/test_a.py", ""]),
        ("run_cov_split.sh --model-id $M --offline tests/test_a.py -- -m $MARKS", ["tests/test_a.py"]),
        ('exec omni-ci cov split "$@"', [""]),
        ("pytest --omni-doctor", []),
        ("pytest --markers", []),
    ],
)
def test_the_places_of_a_run(command: str, places: list[str]) -> None:
    assert [place.path for place in named(command).places] == places


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("pytest -m cpu", ["tests"]),
        ("pytest tools", ["tools"]),
        ("cd tools && pytest", ["tools"]),
        ("cd pkg && pytest", ["pkg"]),
        ("pytest --rootdir=pkg", [""]),
        ("pytest -o testpaths=tools", [""]),
    ],
)
def test_testpaths_count_where_pytest_is_started_beside_its_settings(command: str, places: list[str]) -> None:
    assert [place.path for place in named(command, INI).places] == places


def test_testpaths_that_are_not_here_are_no_paths_to_pytest() -> None:
    told = {"pytest.ini": "[pytest]\ntestpaths = unit\n"}
    assert [place.path for place in named("pytest", told).places] == ["unit", ""]


@pytest.mark.parametrize(
    "word", ["$EXTRA", "${EXTRA}", "$@", "$(cat tests.txt)", "@tests.txt", "`cat tests.txt`"]
)
def test_a_word_that_may_be_any_path_may_be_every_test(word: str) -> None:
    found = named(f"pytest tests/test_a.py {word}")
    assert found.unknown == (word,)
    assert [(place.path, place.is_searched) for place in found.places] == [
        ("tests/test_a.py", False),
        ("", True),
    ]
    assert not found.is_exact


def test_paths_in_addopts_are_paths() -> None:
    told = {"pytest.ini": "[pytest]\naddopts = tools --level deep\n"}
    assert [place.path for place in named("pytest", told).places] == ["tools"]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ("", ["tests/foo/test_b.py", "tests/foo/test_c.py", "tests/test_a.py"]),
        ("--ignore=tests/foo", ["tests/test_a.py"]),
        ("--ignore tests/foo/test_b.py", ["tests/foo/test_c.py", "tests/test_a.py"]),
        ("--ignore-glob='*_b.py'", ["tests/foo/test_c.py", "tests/test_a.py"]),
        ("--ignore-glob tests/f*", ["tests/test_a.py"]),
        ("--ignore=$SLOW", ["tests/foo/test_b.py", "tests/foo/test_c.py", "tests/test_a.py"]),
    ],
)
def test_what_a_run_ignores(options: str, left: list[str]) -> None:
    index = PathIndex(["tests/foo/test_b.py", "tests/foo/test_c.py", "tests/test_a.py"])
    found = named(f"pytest tests {options}", index=index)
    (place,) = found.places
    assert found.all(place, index) == left
    assert found.first(place, index) == left[0]


@pytest.mark.parametrize(
    "command",
    ["pytest", "pytest tests", "pytest tools", "pytest tests --ignore=tests/foo", "cd tests/foo && pytest"],
)
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"pytest.ini": "[pytest]\ntestpaths = tests/foo tools\n"},
        {
            "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = 'tests'\naddopts = ['--ignore=tests/foo']\n"
        },
        {"tox.ini": "[pytest]\ntestpaths = t*s\n", "setup.cfg": "[tool:pytest]\ntestpaths = tools\n"},
        {"tests/foo/pytest.ini": ""},
    ],
)
def test_what_is_named_is_what_pytest_itself_collects(
    command: str, told: dict[str, str], tmp_path: Path
) -> None:
    tests = ("tests/test_a.py", "tests/foo/test_b.py", "tools/test_c.py")
    for name, text in {**dict.fromkeys(tests, "def test_x(): pass\n"), **told}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    index = PathIndex([*tests, *told])
    found = named(command, told, index)
    reached = {path for place in found.places for path in found.all(place, index) if path in tests}
    asked = command.replace("pytest", f"{sys.executable} -m pytest --collect-only -q -p no:cacheprovider", 1)
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    said = subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    ).stdout
    collected = {name for name in tests if f"{name.rpartition('/')[2]}::" in said}
    assert reached == collected


def test_braces_are_opened_only_so_far() -> None:
    word = "{a,b}" * 20
    assert 64 <= len(named(f"pytest {word}").places) <= 70


def test_a_launcher_has_no_settings_of_pytest() -> None:
    (run,) = pytest_runs("pytest tests")
    assert named_tests(run, NO_SETTINGS, TREE).settings_from == "tests"
