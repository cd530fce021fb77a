"""`omni-ci cov split` where nothing is measured: real pytest, one run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SPLIT = (
    *("--model-id", "a", "--offline", "tests/test_a.py", "--online", "tests/test_b.py"),
    *("--online", "tests/test_a.py", "--", "-k", "not left_out"),
)


def split(root: Path, word: str = "off", **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BUILDKITE", "OMNI_"))}
    return subprocess.run(
        [sys.executable, "-m", "omni_ci", "cov", "split", *SPLIT],
        cwd=root,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMNI_COVERAGE": word, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    body = "def test_one():\n    pass\n\n\ndef test_left_out():\n    assert 0\n"
    for name in ("a", "b"):
        (tmp_path / f"tests/test_{name}.py").write_text(body, encoding="utf-8")
    return tmp_path


def test_both_halves_are_one_plain_run(project: Path) -> None:
    done = split(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("test session starts") == 1
    assert "2 passed, 2 deselected" in done.stdout
    assert "--- a without coverage (OMNI_COVERAGE=off): " in done.stdout
    assert done.stdout.rstrip().endswith("exit 0: passed")
    assert not list(project.glob("*coverage*"))


def test_buildkites_variables_do_not_matter_where_nothing_is_uploaded(project: Path) -> None:
    assert split(project, BUILDKITE="true").returncode == 0


def test_a_failure_and_a_run_without_a_test_keep_their_codes(project: Path) -> None:
    (project / "tests/test_b.py").write_text("def test_one():\n    assert 0\n", encoding="utf-8")
    assert split(project).returncode == 1
    skipped = "import pytest\n\n\ndef test_one():\n    pytest.skip('no card')\n"
    for name in ("a", "b"):
        (project / f"tests/test_{name}.py").write_text(skipped, encoding="utf-8")
    done = split(project)
    assert done.returncode == 5
    assert "no test was executed (2 skipped)" in done.stdout


def test_a_child_that_was_killed_is_told_by_its_signal(project: Path) -> None:
    (project / "tests/test_b.py").write_text(
        "import os\n\n\ndef test_one():\n    os.kill(os.getpid(), 9)\n", encoding="utf-8"
    )
    assert split(project).returncode == 137


def test_mistakes_are_the_same_as_with_coverage(project: Path) -> None:
    done = split(project, "of")
    assert done.returncode == 2
    assert "OMNI_COVERAGE is 'of'; it must be on or off" in done.stderr
    (project / "tests/test_b.py").unlink()
    assert "--online tests/test_b.py: no such file or folder" in split(project).stderr
