"""`omni-ci gate`: 0 is the one exit code that skips, and nothing but a decision gives it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

PROGRAM = (sys.executable, "-m", "omni_ci")


def test_documentation_is_skipped_and_product_code_runs(scratch: Any) -> None:
    skipped = scratch.run("gate", "cuda", "l2", "--changed", "docs/index.md")
    assert (skipped.code, skipped.out) == (
        0,
        "skip cuda l2: CI skipped — docs or pytest skip-mark changes only\n",
    )
    ran = scratch.run("gate", "cuda", "l2", "--changed", "src/engine/core.py")
    assert ran.code == 10
    assert ran.out.startswith("run cuda l2: product or non-whitelisted changes present: src/engine/core.py")


@pytest.mark.parametrize(
    ("platform", "level", "code"),
    [
        ("cuda", "l2", 10),
        ("cuda", "l3", 0),
        ("amd", "l3", 10),
        ("amd", "l2", 0),
        ("npu", "l2", 0),
        ("npu", "l4", 10),
    ],
)
def test_two_pipeline_files_run_what_they_are_of(scratch: Any, platform: str, level: str, code: int) -> None:
    files = (".buildkite/cuda/test-ready.yml", ".buildkite/amd/test-amd-merge.yml")
    assert scratch.run("gate", platform, level, "--changed", *files).code == code


def test_the_last_commit_counts_on_the_main_branch(scratch: Any) -> None:
    scratch.commit({"docs/index.md": "# Again\n"})
    assert scratch.run("gate", "cuda", "l2").code == 0
    scratch.commit({"src/engine/core.py": "x = 5\n"})
    assert scratch.run("gate", "cuda", "l2").code == 10


@pytest.mark.parametrize("schedule", ["NIGHTLY", "WEEKLY"])
@pytest.mark.parametrize("level", ["l2", "l3", "l4", "l5"])
def test_a_schedule_runs_whatever_the_last_commit_was(
    scratch: Any, schedule: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.commit({"docs/index.md": "# Again\n"})
    monkeypatch.setenv("BUILDKITE_BRANCH", "main")
    assert scratch.run("gate", "cuda", level).code == 0
    monkeypatch.setenv(schedule, "1")
    ran = scratch.run("gate", "cuda", level)
    assert (ran.code, ran.out) == (10, f"run cuda {level}: a schedule started this build\n")
    monkeypatch.setenv("BUILDKITE_BRANCH", "work")
    assert scratch.run("gate", "cuda", level, "--base", "HEAD~1").code == 0


@pytest.mark.parametrize("separator", [" ", "\n", ","])
def test_several_paths_in_one_word_run(scratch: Any, separator: str) -> None:
    ran = scratch.run(
        "gate", "cuda", "l3", "--changed", separator.join(["src/engine/core.py", "docs/index.md"])
    )
    assert ran.code == 10
    assert "what was listed is nowhere, here or in the last commit: src/engine/core.py" in ran.out
    assert scratch.run("gate", "cuda", "l3", "--changed", "docs/nowhere.md").code == 10


@pytest.mark.parametrize("tokens", [("cuda", "l3", "--help"), ("cuda", "l3", "--version"), ("cuda", "-h")])
def test_help_and_version_are_not_0(scratch: Any, tokens: tuple[str, ...]) -> None:
    assert scratch.run("gate", *tokens).code == 2
    assert scratch.run("gate", "--help").code == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "is a folder, where a file is read"),
        (lambda path: path.symlink_to("nope.yml"), "is a link to nope.yml, which does not exist"),
    ],
)
def test_a_policy_that_is_no_file_runs(scratch: Any, make: Any, said: str) -> None:
    policy = scratch.root / ".buildkite" / "policy.yml"
    policy.unlink(missing_ok=True)
    make(policy)
    ran = scratch.run("gate", "cuda", "l3", "--changed", "docs/index.md")
    assert ran.code == 2
    assert ran.err == f"omni-ci: .buildkite/policy.yml: {said}" + ran.err.partition(said)[2]


def test_what_is_not_known_runs(scratch: Any) -> None:
    ran = scratch.run("gate", "cuda", "l2")
    assert ran.code == 10
    assert "could not resolve changed files" in ran.out
    assert scratch.run("gate", "cuda", "l2", "--base", "nowhere").code == 10


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("cud", "l2"), "(did you mean 'cuda'?)"),
        (("cuda", "l22"), "(did you mean 'l2'?)"),
        (("cuda",), "See `omni-ci --help`."),
        (("cuda", "l2", "l3"), "unexpected argument 'l3'"),
        (("cuda", "l2", "--changed"), "--changed"),
        (("cuda", "l2", "--policy", "nowhere.yml"), "nowhere.yml: there is no such file"),
    ],
)
def test_a_mistake_is_2_which_runs(scratch: Any, tokens: tuple[str, ...], said: str) -> None:
    ran = scratch.run("gate", *tokens)
    assert ran.code == 2
    assert said in ran.err


def test_a_policy_that_cannot_be_read_runs(scratch: Any) -> None:
    scratch.write({".buildkite/policy.yml": "schema: 1\ndocz: [x]\n"})
    ran = scratch.run("gate", "cuda", "l2", "--changed", "README.md")
    assert ran.code == 2
    assert "did you mean 'docs'" in ran.err


@pytest.mark.parametrize(
    "broken",
    [
        "import omni_ci.starting.gating as g; g.decide = None",
        "import omni_ci.starting.skipping as s; s.Decision.is_run = lambda *_: 1 / 0",
        "import sys; sys.stdout = open('/dev/full', 'w')",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_a_crash_is_never_0(scratch: Any, broken: str) -> None:
    script = (
        f"{broken}\nfrom omni_ci.cli import main\nmain(['gate', 'cuda', 'l2', '--changed', 'docs/index.md'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, cwd=scratch.root)
    assert done.returncode not in {0, 10}, done.stderr


def test_the_shell_sees_the_same_codes(scratch: Any) -> None:
    for path, code in (("docs/index.md", 0), ("src/engine/core.py", 10)):
        done = subprocess.run(
            [*PROGRAM, "gate", "cuda", "l2", "--changed", path],
            capture_output=True,
            check=False,
            cwd=scratch.root,
        )
        assert done.returncode == code


def test_git_that_is_not_there_runs(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ran = scratch.run("gate", "cuda", "l2", "--changed", "docs/index.md")
    assert ran.code == 4
    assert "git is not installed" in ran.err
