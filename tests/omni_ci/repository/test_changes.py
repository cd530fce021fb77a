"""What changed, asked of real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from omni_ci.repository.changes import Build, ChangeSet, changed_files, listed_changes, tree_files
from omni_ci.repository.git import GitError, Repository
from omni_hardware.errors import InputError

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(where), *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **IDENTITY},
    )
    return done.stdout.strip()


def commit(repo: Path, message: str = "x", **files: str | None) -> str:
    """Write (or with None remove) files, `__` in a name standing for `/` and `_py` for `.py`, and commit."""
    for name, text in files.items():
        path = repo / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    commit(path, a_py="1", pkg__b_py="some text\nof two lines\n")
    return path


def clone(repo: Path, name: str, *options: str) -> Path:
    path = repo.parent / name
    git(repo.parent, "clone", "-q", *options, repo.as_uri(), str(path))
    return path


def test_a_branch_is_compared_with_its_merge_base(repo: Path) -> None:
    start = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "-q", "-b", "work")
    head = commit(repo, c_py="1")
    git(repo, "checkout", "-q", "main")
    commit(repo, others_py="1")
    git(repo, "checkout", "-q", "work")
    changes = changed_files(repo)
    assert changes.files == ("c.py",)
    assert (changes.base, changes.head) == (start, head)
    assert changes.basis == "since the merge base with main"
    assert changed_files(repo, base="main", head="work").files == ("c.py",)
    assert changed_files(repo / "pkg", base="main").files == ("c.py",)


def test_on_the_main_branch_the_last_commit_counts(repo: Path) -> None:
    commit(repo, c_py="1")
    commit(repo, d_py="1")
    changes = changed_files(repo)
    assert changes.files == ("d.py",)
    assert "since the first parent" in changes.basis


def test_a_merge_commit_on_main_holds_the_whole_branch(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "work")
    commit(repo, c_py="1")
    commit(repo, d_py="1")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "-m", "merge", "work")
    build = Build(commit=git(repo, "rev-parse", "HEAD"), branch="main")
    assert changed_files(repo, build=build).files == ("c.py", "d.py")


def test_a_renamed_file_counts_under_both_names_whatever_git_is_configured_to(repo: Path) -> None:
    git(repo, "config", "diff.renames", "copies")
    git(repo, "config", "diff.relative", "true")
    (repo / "new").mkdir()
    git(repo, "mv", "pkg/b.py", "new/b.py")
    git(repo, "commit", "-q", "-m", "x")
    assert changed_files(repo).files == ("new/b.py", "pkg/b.py")
    (repo / "pkg").mkdir(exist_ok=True)
    assert changed_files(repo / "pkg").files == ("new/b.py", "pkg/b.py")


def test_a_moved_submodule_counts_even_where_git_is_told_to_ignore_it(repo: Path) -> None:
    for commit_of_it in ("1" * 40, "2" * 40):
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{commit_of_it},deps/kernels")
        git(repo, "commit", "-q", "-m", "x")
    git(repo, "config", "diff.ignoreSubmodules", "all")
    assert changed_files(repo).files == ("deps/kernels",)


def test_odd_names_come_back_as_they_are(repo: Path) -> None:
    names = ["d é/f.py", 'quo"te', "tab\there", "-dash", "new\nline", "測試/模型.py"]
    for name in names:
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("1")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "x")
    assert set(changed_files(repo).files) == set(names)
    tree = tree_files(repo, "HEAD")
    assert tree is not None
    assert set(names) <= tree


def test_a_deleted_file_counts(repo: Path) -> None:
    commit(repo, pkg__b_py=None)
    assert changed_files(repo).files == ("pkg/b.py",)
    assert tree_files(repo) == frozenset({"a.py"})


def test_camunda6631_outside_a_repository_the_changes_are_unknown(tmp_path: Path) -> None:
    changes = changed_files(tmp_path)
    assert not changes.known
    assert "not a git repository" in (changes.reason or "")
    assert tree_files(tmp_path) is None


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert changed_files(tmp_path).reason == "the repository has no commit yet"


def test_the_first_commit_has_no_parent(repo: Path) -> None:
    assert "is the first commit and has no parent" in (changed_files(repo).reason or "")


def test_a_shallow_clone_says_what_to_fetch(repo: Path) -> None:
    commit(repo, c_py="1")
    shallow = clone(repo, "shallow", "--depth=1")
    assert "not in this shallow clone; fetch with --depth=2" in (changed_files(shallow).reason or "")
    assert changed_files(clone(repo, "two", "--depth=2")).files == ("c.py",)


def test_aspect1257_a_shallow_clone_without_the_merge_base_is_unknown(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "work")
    commit(repo, c_py="1")
    git(repo, "checkout", "-q", "main")
    commit(repo, d_py="1")
    shallow = clone(repo, "shallow", "--depth=1", "--no-single-branch")
    changes = changed_files(shallow, base="origin/main", head="origin/work")
    assert not changes.known
    assert "holds no merge base with origin/main" in (changes.reason or "")


def test_unrelated_histories_have_no_common_ancestor(repo: Path) -> None:
    git(repo, "checkout", "-q", "--orphan", "island")
    commit(repo, z_py="1")
    assert "have no common ancestor" in (changed_files(repo, base="main").reason or "")


@pytest.mark.parametrize("ref", ["mian", "--output=/tmp/x", "-h", "main..work", "", "HEAD^{tree}"])
def test_a_ref_that_does_not_exist_is_unknown_and_runs_no_option(repo: Path, ref: str) -> None:
    commit(repo, c_py="1")
    for changes in (changed_files(repo, base=ref), changed_files(repo, head=ref)):
        assert not changes.known
        assert "is not a commit in this clone" in (changes.reason or "")
    assert "did you mean 'main'?" in (changed_files(repo, base="mian").reason or "")


def test_a_pull_request_is_compared_with_a_fresh_base(repo: Path) -> None:
    """tj-actions/changed-files#737: a stale base ref adds what others have merged since."""
    checkout = clone(repo, "checkout")
    git(repo, "checkout", "-q", "-b", "theirs")
    commit(repo, theirs_py="1")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "-m", "merge", "theirs")
    git(checkout, "fetch", "-q", "origin", "theirs")
    git(checkout, "checkout", "-q", "-b", "mine", "FETCH_HEAD")
    head = commit(checkout, mine_py="1")
    build = Build(commit=head, branch="mine", is_pull_request=True, base_branch="main")
    assert changed_files(checkout, build=build).files == ("mine.py",)
    git(checkout, "update-ref", "refs/remotes/origin/main", "main")  # stale again, and origin gone
    git(checkout, "remote", "set-url", "origin", (repo.parent / "gone").as_uri())
    changes = changed_files(checkout, build=build)
    assert changes.files == ("mine.py", "theirs.py")
    assert "could not be refreshed" in changes.notices[0]


def test_a_pull_request_whose_base_is_nowhere_is_unknown(repo: Path) -> None:
    build = Build(commit="HEAD", is_pull_request=True, base_branch="release")
    reason = changed_files(repo, build=build).reason or ""
    assert "'origin/release' is not a commit" in reason
    assert "fetching release failed" in reason


def test_the_build_is_read_from_buildkites_variables() -> None:
    pull = {
        "BUILDKITE_COMMIT": "abc",
        "BUILDKITE_BRANCH": "fix",
        "BUILDKITE_PULL_REQUEST": "12",
        "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
    }
    assert Build.of(pull) == Build(commit="abc", branch="fix", is_pull_request=True, base_branch="main")
    assert not Build.of({**pull, "BUILDKITE_PULL_REQUEST": "false"}).is_pull_request
    assert Build.of({}) == Build()


def test_without_git_the_changes_are_unknown(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    assert changed_files(repo).reason == "git is not installed, or not on PATH"


def test_uncommitted_work_is_not_in_the_diff_and_said(repo: Path) -> None:
    commit(repo, c_py="1")
    (repo / "new.py").write_text("1")
    (repo / "c.py").write_text("2")
    changes = changed_files(repo)
    assert changes.files == ("c.py",)
    assert changes.notices == ("2 uncommitted paths are not part of this diff",)
    assert changed_files(repo, base="HEAD~1").notices == ()


def test_files_of_a_commit(repo: Path) -> None:
    commit(repo, a_py="2")
    repository = Repository(repo)
    assert repository.show("HEAD~1", "a.py") == "1"
    assert repository.show("HEAD", "a.py") == "2"
    assert repository.show("HEAD", "pkg") is None
    assert repository.show("HEAD", "nowhere.py") is None
    with pytest.raises(GitError, match="'nowhere' is not a commit here"):
        repository.show("nowhere", "a.py")


def test_listed_paths_are_read_from_the_folder_one_stands_in(repo: Path) -> None:
    listed = listed_changes(["b.py", "../a.py", "./gone.py"], repo, here=repo / "pkg")
    assert listed.files == ("a.py", "pkg/b.py", "pkg/gone.py")
    assert listed.is_listed
    assert listed_changes(["pkg", str(repo / "a.py")], repo).files == ("a.py", "pkg/b.py")
    assert ".git" not in str(listed_changes(["."], repo).files)
    with pytest.raises(InputError, match="'' is empty"):
        listed_changes([""], repo)


def test_a_listed_link_counts_as_git_has_it(repo: Path) -> None:
    (repo / "pkg/nowhere").symlink_to("missing")
    (repo / "pkg/folder").symlink_to("../docs")
    (repo / "docs").mkdir()
    (repo / "docs/a.md").write_text("1")
    assert listed_changes(["pkg"], repo).files == ("pkg/b.py", "pkg/folder", "pkg/nowhere")
    assert listed_changes(["pkg/folder/a.md"], repo).files == ("docs/a.md",)
    assert listed_changes(["pkg/nowhere"], repo).notices == ()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd"])
def test_listed_paths_outside_the_repository_are_refused(repo: Path, path: str) -> None:
    with pytest.raises(InputError, match="is outside the repository"):
        listed_changes([path], repo)


def test_unknown_changes_cannot_exist_without_a_reason() -> None:
    with pytest.raises(ValueError, match="need a reason"):
        ChangeSet(known=False)
    with pytest.raises(ValueError, match="known ones have none"):
        ChangeSet(known=True, reason="x")
    with pytest.raises(ValueError, match="list no files"):
        ChangeSet(known=False, reason="x", files=("a",))


def test_the_remotes_main_branch_is_preferred_over_a_stale_local_one(repo: Path) -> None:
    checkout = clone(repo, "checkout")
    commit(repo, theirs_py="1")
    git(checkout, "fetch", "-q")
    git(checkout, "checkout", "-q", "-b", "mine", "origin/main")
    commit(checkout, mine_py="1")
    changes = changed_files(checkout)
    assert changes.files == ("mine.py",)
    assert changes.basis == "since the merge base with origin/main"


def test_the_working_tree_is_what_is_there_now(repo: Path) -> None:
    (repo / ".gitignore").write_text("*.log\n")
    (repo / "new.py").write_text("1")
    (repo / "x.log").write_text("1")
    (repo / "a.py").unlink()
    assert tree_files(repo) == {".gitignore", "new.py", "pkg/b.py"}


GIT = """#!/bin/sh
echo "$GIT_TERMINAL_PROMPT $*" >> {log}
{then}
"""


def a_git(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> Path:
    """Put a git of our own first on PATH; return the file it logs its calls in."""
    log = folder / "calls"
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "git").write_text(GIT.format(log=log, then=then))
    (bin_ / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    return log


def test_git_never_asks_for_a_password_and_takes_no_name_for_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = a_git(tmp_path, monkeypatch, "exit 0")
    repository = Repository(tmp_path)
    repository.refresh("--upload-pack=evil")
    repository.commit("--git-dir=evil")
    fetch, parse = log.read_text().splitlines()
    assert fetch.startswith("0 -C ")
    assert "fetch --quiet --no-tags --end-of-options origin " in fetch
    assert "rev-parse --verify --quiet --end-of-options --git-dir=evil" in parse


def test_a_git_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_git(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr("omni_ci.repository.git._SECONDS", 0.3)
    assert Repository(tmp_path).refresh("main") == "git fetch did not finish within 0.3 s"


def test_a_child_that_git_leaves_behind_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_git(tmp_path, monkeypatch, "sleep 5 &")
    monkeypatch.setattr("omni_ci.repository.git._SECONDS", 2)
    assert Repository(tmp_path).refresh("main") is None
