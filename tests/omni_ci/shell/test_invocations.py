"""What is read out of a step's shell commands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.shell.invocations import invocations


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pytest tests/a.py", ["tests/a.py"]),
        (
            "pytest -sv tests/a/ tests/b.py::test_x[1] -m 'x and y' --run-level core_model",
            ["tests/a/", "tests/b.py::test_x[1]"],
        ),
        ("timeout 20m python -m pytest ./tests/a.py", ["./tests/a.py"]),
        ("pytest tests/a --ignore=tests/a/x --ignore tests/a/y --deselect tests/a/z.py::t", ["tests/a"]),
        ("timeout 40m bash -c \"\n  export A=1\n  pytest tests/a.py -m 'x and y'\n\"", ["tests/a.py"]),
        ("bash -euc 'pytest tests/a.py'", ["tests/a.py"]),
        (
            "pytest tests/a.py && pytest tests/b.py; pytest tests/c.py",
            ["tests/a.py", "tests/b.py", "tests/c.py"],
        ),
        ("pytest \\\n  tests/a.py \\\n  tests/b.py", ["tests/a.py", "tests/b.py"]),
        ("# pytest tests/old.py isn't run\npytest tests/a.py", ["tests/a.py"]),
        ("pytest tests/a.py # tests/old.py\npytest tests/b.py", ["tests/a.py", "tests/b.py"]),
        ("pytest tests/a.py | tee log.txt", ["tests/a.py"]),
        ("cd pkg && pytest tests/a.py", ["tests/a.py"]),
        ("cd /app/omni && pytest tests/a.py", ["tests/a.py"]),
        ("pytest tests/*.py 'tests/b/*.py'", ["tests/*.py", "tests/b/*.py"]),
        ("pytest $$EXTRA tests/a.py", ["$EXTRA", "tests/a.py"]),
        ("cd pkg; pytest $EXTRA", ["$EXTRA"]),
        ("pytest tests/$A/${B}_test.py", ["tests/$A/${B}_test.py"]),
        (
            "pytest tests/{foo,bar}/ x/{a,b{c,d}}.py",
            ["tests/{foo,bar}/", "x/{a,b{c,d}}.py"],
        ),
        ("pytest tests/{1..4}/a.py", ["tests/{1..4}/a.py"]),
        ("cd tests/foo && pytest -v -m x", []),
        ("cd tests && cd foo/.. && pytest", []),
        ("cd $HOME && pytest -v", []),
        ("python tests/foo/test_x.py", ["tests/foo/test_x.py"]),
        ("python3.12 -u -m torch.distributed.run --nproc_per_node 2 tests/run.py a.py", ["tests/run.py"]),
        ("torchrun --nproc_per_node=2 tests/foo/test_x.py", ["tests/foo/test_x.py"]),
        ("python scripts/build.py tests", []),
        ("echo tests/a.py", []),
        ("cp tests/a.py tests/b.py; echo pytest", []),
    ],
)
def test_test_paths(command: str, words: list[str]) -> None:
    found = invocations((command,))
    assert sorted(found.words) == sorted(words)
    assert found.problem is None


@pytest.mark.parametrize(
    "command",
    [
        "scripts/run_cov_split.sh --model-id m --offline tests/a.py --online tests/b.py -- -m 'x and y'",
        ".buildkite/common/scripts/run_cov_split.sh \\\n --model-id m --offline tests/a.py --online tests/b.py",
        "bash scripts/run_cov_split.sh --model-id m --offline tests/a.py --online tests/b.py",
        "omni-ci cov split --model-id m --offline tests/a.py --online tests/b.py",
        "python -m omni_ci cov split --model-id m --offline tests/a.py --online tests/b.py",
    ],
)
def test_coverage_is_recognised_by_its_command(command: str) -> None:
    found = invocations((command,))
    assert found.measures_coverage
    assert {"tests/a.py", "tests/b.py"} <= set(found.words)


def test_a_step_is_read_as_one_script() -> None:
    (run,) = invocations(("cd pkg", "pytest tests/a.py")).runs
    assert (run.folder, run.paths) == ("pkg", ("tests/a.py",))


def test_omni_pr_qwen_image_quotes_lost_inside_quotes_still_give_the_path() -> None:
    script = "timeout 40m bash -c '\n pytest -s tests/e2e/test_q.py -m 'advanced_model and cuda' --run-level 'x'\n'"
    assert "tests/e2e/test_q.py" in invocations((script,)).words


def test_shell_that_cannot_be_read_is_guessed_and_said() -> None:
    found = invocations(("echo it's\npytest tests/a.py::test_x tests/b/",))
    assert found.problem == "the ' of line 1 is not closed"
    assert set(found.words) == {"tests/a.py", "tests/b/"}


def test_pytest_without_a_path() -> None:
    found = invocations(("pytest -m 'core_model and cpu'",))
    assert [run.paths for run in found.runs] == [()]


@settings(max_examples=50)
@given(st.text(alphabet="pytest \n'\"\\$#&|;()<>/.*[-", max_size=60))
def test_any_shell_is_read_without_an_error(text: str) -> None:
    invocations((f"{text} pytest", text))
