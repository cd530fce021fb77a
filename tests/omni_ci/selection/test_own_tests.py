"""A real repository whose pytest is told by its settings, not by its steps, where the tests are."""

from __future__ import annotations

import json
from typing import Any

import pytest

PIPELINE = """\
steps:
  - label: Quick
    key: quick
    source_file_dependencies: [src/engine/]
    commands: [pytest -m cpu]
  - label: One
    key: one
    source_file_dependencies: [src/engine/]
    commands: [pytest tests/test_engine.py]
  - label: Docs
    key: docs
    source_file_dependencies: [docs/]
    commands: [make docs]
"""
PYTEST = "[tool.pytest.ini_options]\ntestpaths = ['tests']\n"


@pytest.fixture
def suite(scratch: Any) -> Any:
    scratch.commit({".buildkite/cuda/test-ready.yml": PIPELINE, "pyproject.toml": PYTEST})
    return scratch


def running(suite: Any, *changed: str, **files: str) -> dict[str, str]:
    """Return why each step runs that does: for what is *changed* by hand, else for a commit of *files*."""
    if not changed:
        suite.commit(files)
    ran = suite.run("plan", "--format", "json", *(["--changed", *changed] if changed else []))
    assert ran.code == 0, ran.err
    return {step["key"]: step["because"] for step in json.loads(ran.out)["steps"] if step["runs"]}


def test_a_run_without_a_path_takes_the_testpaths(suite: Any) -> None:
    assert running(suite, **{"tests/test_new.py": "def test_new(): pass\n"}) == {
        "quick": "tests/test_new.py changed, under tests, of the testpaths of pyproject.toml"
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\ntestpaths = suite\n"),
        ("tox.ini", "[pytest]\ntestpaths =\n    suite\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = suite\n"),
    ],
)
def test_every_file_of_settings_counts(suite: Any, name: str, text: str) -> None:
    suite.commit({name: text, "pyproject.toml": "", "suite/test_a.py": ""})
    assert running(suite, "suite/test_a.py") == {
        "quick": f"suite/test_a.py changed, under suite, of the testpaths of {name}"
    }


def test_without_settings_every_test_file_counts(suite: Any) -> None:
    suite.commit({"pyproject.toml": "", "tools/test_b.py": "", "tools/data.txt": ""})
    assert running(suite, "tools/test_b.py") == {
        "quick": "tools/test_b.py changed, a test file, and its pytest is given no path"
    }
    assert running(suite, "tools/data.txt") == {}


def test_settings_of_pytest_that_changed_run_what_reads_them(suite: Any) -> None:
    because = "pyproject.toml changed, and in it what pytest is told: addopts"
    assert running(suite, **{"pyproject.toml": f"{PYTEST}addopts = ['-x']\n"}) == {
        "quick": because,
        "one": because,
    }


def test_the_rest_of_their_file_runs_nothing(suite: Any) -> None:
    text = f"{PYTEST}markers = ['new: a marker more']\n[project]\nname = 'x'\n"
    assert running(suite, **{"pyproject.toml": text}) == {}


def test_settings_that_are_listed_by_hand_run_what_reads_them(suite: Any) -> None:
    because = (
        "pyproject.toml is listed, which pytest reads its settings from, and there is no base to compare with"
    )
    assert running(suite, "pyproject.toml") == {"quick": because, "one": because}


def test_a_settings_file_and_a_document_that_a_run_names_are_its_own(suite: Any) -> None:
    pipeline = (
        "steps:\n"
        "  - {label: A, key: a, source_file_dependencies: [src/], commands: [pytest -c ci/pytest.ini tests/test_a.py]}\n"
        "  - {label: B, key: b, source_file_dependencies: [src/], commands: ['pytest --doctest-glob=*.md docs/guide.md']}\n"
    )
    suite.commit({".buildkite/cuda/test-ready.yml": pipeline, "ci/pytest.ini": "", "docs/guide.md": ""})
    assert running(suite, "ci/pytest.ini") == {"a": "ci/pytest.ini changed, which its pytest is given"}
    assert running(suite, "docs/guide.md") == {"b": "docs/guide.md changed, which its pytest is given"}


def test_the_value_of_a_strangers_option_in_addopts_hides_no_tests(suite: Any) -> None:
    settings = "[tool.pytest.ini_options]\ntestpaths = ['tests']\naddopts = '--alluredir docs'\n"
    suite.commit({"pyproject.toml": settings, "docs/a.md": "", "tests/test_b.py": ""})
    assert running(suite, "tests/test_b.py") == {
        "quick": "tests/test_b.py changed, under tests, of the testpaths of pyproject.toml"
    }
