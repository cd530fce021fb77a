"""What `omni-ci plan` reads and writes: which files, which repository, which bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PIPELINE = ".buildkite/cuda/test-ready.yml"


def test_each_pipeline_is_rendered_with_the_presets_beside_it(scratch: Any) -> None:
    steps = (
        "steps: [{label: x, key: x, commands: [y], mirror_hardwares: %s, source_file_dependencies: [z/]}]\n"
    )
    own = scratch.presets_of("l4big")
    scratch.commit(
        {
            ".buildkite/big/test-ready.yml": steps % "l4big_1",
            ".buildkite/big/presets.yml": own,
            ".buildkite/common/policy.yml": "schema: 1\ndocs: []\n",
            "z/a": "1",
        }
    )
    scratch.commit({"unrelated": "1"})
    ran = scratch.run("plan")
    assert ran.code == 0, ran.err
    assert [line.split()[1] for line in ran.out.splitlines()[:-2]] == [
        ".buildkite/big/test-ready.yml#x", f"{PIPELINE}#engine", f"{PIPELINE}#docs",
    ]  # fmt: skip
    assert "0 of 3 steps run" in ran.out
    # what changed for one pipeline concerns that one alone
    scratch.commit({".buildkite/big/presets.yml": own.replace("cpu: 10", "cpu: 11")})
    ran = scratch.run("plan", "--format", "json")
    assert {step["key"] for step in json.loads(ran.out)["steps"] if step["runs"]} == {"x"}
    assert "cpu: 11" not in scratch.run("generate", PIPELINE, "--all").out
    made = scratch.run("generate", ".buildkite/big/test-ready.yml", "--all")
    assert made.code == 0, made.err
    scratch.commit({".buildkite/big/policy.yml": "schema: 1\nmain_branch: trunk\n"})
    ran = scratch.run("plan")
    assert ran.code == 2
    assert "plan them one at a time" in ran.err
    assert scratch.run("plan", "--all").code == 0


def test_the_presets_beside_a_pipeline_come_before_the_common_ones(scratch: Any) -> None:
    steps = "steps: [{label: x, commands: [y], mirror_hardwares: %s}]\n"
    named = {"common": "h1", "big": "h2"}
    scratch.write({f".buildkite/{at}/presets.yml": scratch.presets_of(name) for at, name in named.items()})
    scratch.write(
        {".buildkite/big/test-ready.yml": steps % "h2_1", ".buildkite/small/test-ready.yml": steps % "h1_1"}
    )
    for file in (".buildkite/big/test-ready.yml", ".buildkite/small/test-ready.yml"):
        ran = scratch.run("plan", file)
        assert ran.code == 0, ran.err


@pytest.mark.parametrize("flag", ["--changed", "--label"])
@pytest.mark.parametrize("values", [[], [""], ["x", ""]])
def test_a_flag_that_names_nothing_is_refused(scratch: Any, flag: str, values: list[str]) -> None:
    for command in (["plan"], ["generate", PIPELINE]):
        ran = scratch.run(*command, flag, *values)
        assert ran.code == 2
        assert f"{flag} names nothing" in ran.err


def test_a_listed_path_that_is_nowhere_is_said(scratch: Any) -> None:
    (scratch.root / "docs/index.md").unlink()
    ran = scratch.run("plan", "--changed", "docs/index.md", "src/engin/core.py", "src/engine/core.py")
    assert ran.err.splitlines() == [
        "note: --changed src/engin/core.py: there is no such path here or in the last commit"
    ]
    assert ran.code == 0


@pytest.mark.parametrize(
    "arguments", [[f"{'x' * 300}.yml"], ["--presets", "x" * 300], ["--policy", "x" * 300]]
)
def test_a_name_no_file_can_have_is_no_such_file(scratch: Any, arguments: list[str]) -> None:
    ran = scratch.run("plan", *arguments)
    assert ran.code == 2
    assert "there is no such" in ran.err
    assert scratch.run("plan", "--changed", "x" * 300).code == 0


@pytest.mark.parametrize("mode", ["all", "e2e"])
def test_what_was_asked_for_by_name_asks_for_no_diff(scratch: Any, mode: str) -> None:
    shutil.rmtree(scratch.root / ".git")
    document = json.loads(scratch.run("plan", f"--{mode}", "--format", "json").out)
    # `known` false would promise that everything runs
    assert document["diff"] == {"known": True, "base": None, "head": None, "reason": None, "files": []}
    assert {step["runs"] for step in document["steps"]} == {mode == "all"}


def refused_repository(root: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make git refuse the repository at *root*, and return what it then says."""
    if how == "git is missing":
        monkeypatch.setenv("PATH", str(root))
        return "git is not installed"
    if how == "its pointer is broken":
        shutil.rmtree(root / ".git")
        (root / ".git").write_text("gitdir: /nowhere\n")
        return "not a git repository: /nowhere"
    (root / ".git/config").write_text("[core\n")
    return "bad config"


@pytest.mark.parametrize("how", ["git is missing", "its pointer is broken", "its configuration is broken"])
@pytest.mark.parametrize("command", [["plan"], ["presets"], ["init"]])
def test_a_repository_that_git_refuses_is_not_taken_for_a_folder(
    scratch: Any, monkeypatch: pytest.MonkeyPatch, how: str, command: list[str]
) -> None:
    said = refused_repository(scratch.root, how, monkeypatch)
    monkeypatch.chdir(scratch.root / "src")
    ran = scratch.run(*command)
    assert ran.code == 4
    assert said in ran.err
    assert not (scratch.root / "src/.buildkite").exists()


def test_a_hooks_git_variables_do_not_move_the_root(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch.commit({"src/engine/core.py": "x = 2\n"})
    monkeypatch.setenv("GIT_DIR", str(scratch.root / ".git"))
    monkeypatch.chdir(scratch.root / "src")
    assert "1 of 2 steps run" in scratch.run("plan").out


def test_a_change_behind_a_link_selects_what_watches_the_link(scratch: Any) -> None:
    (scratch.root / "link").symlink_to("real")
    (scratch.root / "again").symlink_to("link/sub")
    deps = {"watched": "[link/]", "deep": "[again/]", "file": "[link/sub/f]", "other": "[link/else/]"}
    steps = [
        f"{{label: {key}, key: {key}, commands: [make], source_file_dependencies: {one}}}"
        for key, one in deps.items()
    ]
    steps.append(
        "{label: t, key: tests, commands: [pytest link/sub/test_f.py], source_file_dependencies: [docs/]}"
    )
    scratch.commit(
        {
            PIPELINE: f"steps: [{', '.join(steps)}]\n",
            "real/sub/f": "1",
            "real/sub/test_f.py": "1",
            "real/else/g": "1",
        }
    )

    def running() -> set[str]:
        document = json.loads(scratch.run("plan", "--format", "json").out)
        return {step["key"] for step in document["steps"] if step["runs"]}

    scratch.commit({"real/sub/f": "2"})
    assert running() == {"watched", "deep", "file"}
    scratch.commit({"real/sub/test_f.py": "2"})
    assert running() == {"watched", "deep", "tests"}
    scratch.commit({"unrelated": "2"})
    assert running() == set()


def test_a_moved_submodule_selects_what_watches_its_inside(scratch: Any) -> None:
    steps = [
        "{label: a, key: inside, commands: [make], source_file_dependencies: [deps/kernels/src/]}",
        "{label: b, key: tests, commands: [pytest deps/kernels/tests/a.py], source_file_dependencies: [docs/]}",
        "{label: c, key: gone, commands: [make], source_file_dependencies: [docs/index.md/x]}",
    ]
    scratch.commit({PIPELINE: f"steps: [{', '.join(steps)}]\n"})
    module = "--cacheinfo", f"160000,{'1' * 40},deps/kernels"
    scratch.git("update-index", "--add", *module)
    scratch.git("commit", "--quiet", "-m", "x")
    document = json.loads(scratch.run("plan", "--format", "json").out)
    assert [step["runs"] for step in document["steps"]] == [True, True, True]
    (scratch.root / "unrelated").write_text("1")
    scratch.git("add", "unrelated")
    scratch.git("commit", "--quiet", "-m", "x")
    document = json.loads(scratch.run("plan", "--format", "json").out)
    assert [(step["key"], step["runs"]) for step in document["steps"]] == [
        ("inside", False), ("tests", False), ("gone", True),
    ]  # fmt: skip


def in_a_process(scratch: Any, *arguments: str | bytes, **environ: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "omni_ci", *arguments]
    kept = {**os.environ, "PYTHONUTF8": "0", **environ}
    return subprocess.run(command, capture_output=True, cwd=scratch.root, env=kept, check=False)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_documents_are_utf8_whatever_the_locale(scratch: Any, encoding: str) -> None:
    scratch.edit(PIPELINE, "label: Docs", "label: 'Dokümente 測試'")
    for arguments in (["generate", PIPELINE, "--all"], ["plan", "--all", "--format", "json"]):
        done = in_a_process(scratch, *arguments, PYTHONIOENCODING=encoding, LC_ALL="C")
        assert done.returncode == 0, done.stderr
        assert "Dokümente 測試" in done.stdout.decode("utf-8")
    (scratch.root / "ü.yml").write_text(
        (scratch.root / PIPELINE).read_text(encoding="utf-8"), encoding="utf-8"
    )
    done = in_a_process(scratch, "plan", "ü.yml", "--all", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr


def test_a_path_that_is_no_text_is_written_as_git_lists_it(scratch: Any) -> None:
    for arguments in (["plan"], ["plan", "--format", "json"]):
        done = in_a_process(scratch, *arguments, "--changed", b"docs/\xff.py", "--label", b"\xff")
        assert done.returncode == 0, done.stderr
        assert b"\\xff.py" in done.stdout


def test_output_that_cannot_be_written_is_one_message(scratch: Any) -> None:
    for arguments in ("plan", "plan --format json", f"generate {PIPELINE} --all"):
        for where, said in (
            (">/dev/full", "standard output cannot be written"),
            (">&-", "standard output is closed"),
        ):
            command = f'exec "{sys.executable}" -m omni_ci {arguments} {where}'
            done = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, cwd=scratch.root, check=False
            )
            assert done.returncode == 4, done.stderr
            assert said in done.stderr
            assert "Traceback" not in done.stderr
            assert "Exception ignored" not in done.stderr


def test_with_standard_error_closed_the_pipeline_stays_clean(scratch: Any) -> None:
    command = f'exec "{sys.executable}" -m omni_ci generate {PIPELINE} --all 2>&-'
    done = subprocess.run(
        ["sh", "-c", command], stdout=subprocess.PIPE, text=True, cwd=scratch.root, check=True
    )
    assert "steps run" not in done.stdout
    assert "steps:" in done.stdout
