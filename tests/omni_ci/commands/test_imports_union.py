"""`imports: union`: what a step's tests import selects it, through any number of files."""

from __future__ import annotations

import json
from typing import Any

import pytest

PIPELINE = ".buildkite/cuda/test-ready.yml"
POLICY = "schema: 1\nimports: union\n"
FILES = {
    ".buildkite/policy.yml": POLICY,
    PIPELINE: """\
steps:
  - {label: Engine, key: engine, agents: {queue: q}, commands: [pytest tests/engine], source_file_dependencies: [docs/]}
  - {label: One, key: one, agents: {queue: q}, commands: ["pytest tests/engine/test_*.py"], source_file_dependencies: [docs/]}
  - {label: Other, key: other, agents: {queue: q}, commands: [pytest tests/test_engine.py], source_file_dependencies: [docs/]}
  - {label: Free, key: free, agents: {queue: q}, commands: [make], source_file_dependencies: [docs/]}
""",
    "tests/engine/test_core.py": "from pkg.outer import run\n",
    "tests/conftest.py": "import pkg.fixtures\n",
    "pkg/__init__.py": "",
    "pkg/outer.py": "def run():\n    from pkg import inner\n",
    "pkg/inner.py": "",
    "pkg/fixtures.py": "",
    "pkg/lonely.py": "",
}


@pytest.fixture
def union(scratch: Any) -> Any:
    scratch.commit(FILES)
    return scratch


def running(scratch: Any, *changed: str) -> dict[str, str]:
    for path in changed:
        scratch.write({path: (scratch.root / path).read_text(encoding="utf-8") + "x = 1\n"})
    scratch.commit()
    ran = scratch.run("plan", "--format", "json")
    assert ran.code == 0, ran.err
    return {
        step["key"]: step["because"]
        for step in json.loads(ran.out)["steps"]
        if step["runs"] and step["rule"] == "import"
    }


def test_vllm42221_an_import_that_no_list_names_selects_the_step(union: Any) -> None:
    """A list narrowed to a folder left out what its tests import; a change there ran nothing."""
    way = "tests/engine/test_core.py → pkg/outer.py → pkg/inner.py"
    because = f"pkg/inner.py changed, which its tests import: {way}"
    assert running(union, "pkg/inner.py") == {"engine": because, "one": because}


def test_a_conftest_imports_for_every_test_below_it(union: Any) -> None:
    assert set(running(union, "pkg/fixtures.py")) == {"engine", "one", "other"}


def test_what_nothing_imports_selects_nothing(union: Any) -> None:
    assert running(union, "pkg/lonely.py") == {}


def test_reported_only_without_the_word(union: Any) -> None:
    union.commit({".buildkite/policy.yml": "schema: 1\n"})
    union.commit({"x": "1"})
    assert running(union, "pkg/inner.py") == {}


def test_broken_files_are_no_error(union: Any) -> None:
    union.commit({"tests/engine/test_core.py": "def (\n", "pyproject.toml": "[broken\n"})
    union.commit({"x": "1"})
    assert running(union, "pkg/inner.py") == {}


def test_a_step_says_for_itself_whether_imports_count(union: Any) -> None:
    with_word = FILES[PIPELINE].replace("key: one,", "key: one, imports: union,")
    union.commit({".buildkite/policy.yml": "schema: 1\n", PIPELINE: with_word})
    union.commit({"x": "1"})
    assert set(running(union, "pkg/inner.py")) == {"one"}
    assert "imports" not in union.run("generate", PIPELINE, "--all").out


def test_a_step_may_leave_the_policys_imports_out(union: Any) -> None:
    union.commit({PIPELINE: FILES[PIPELINE].replace("key: one,", "key: one, imports: report,")})
    union.commit({"x": "1"})
    assert set(running(union, "pkg/inner.py")) == {"engine"}
