"""Every call of git: read-only but for one fetch of a pull request's base, and never through a pager or a prompt."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from omni_ci.repository.programs import finish
from omni_hardware.errors import InfrastructureError, strip_controls

# Whatever the user's configuration says: both paths of a rename, unquoted, and submodules that moved.
_DIFF = ("diff", "--name-only", "--no-renames", "-z", "--ignore-submodules=none")
_SECONDS = 60
# A hook of git exports these; the repository meant is always the one around the folder.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE")
_LINK, _SUBMODULE = "120000", "160000"


class GitError(InfrastructureError):
    """git said no; the message is its first line."""


class NoRepositoryError(GitError):
    """The folder lies in no repository at all: nothing is broken, git has just nothing to say."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, by the root of its working tree."""

    root: Path

    @classmethod
    def around(cls, start: Path) -> Repository:
        """Return the repository *start* lies in.

        Raises NoRepositoryError outside of any, GitError where git is missing or refuses the repository.
        """
        top = os.fsdecode(_git(start, "rev-parse", "--show-toplevel")).rstrip("\n")
        if not top:
            raise GitError(f"{start} is inside a bare repository; run in a checkout")
        return cls(Path(top))

    def commit(self, ref: str) -> str | None:
        """Return the full hash *ref* names, or None."""
        try:
            found = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except GitError:
            return None
        return found.decode("ascii", "replace").strip() or None

    def parent(self, commit: str) -> str | None:
        """Return the first parent of *commit*, or None: a first commit, or the edge of a shallow clone."""
        return self.commit(f"{commit}^1")

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor, or None."""
        try:
            return (
                self._run("merge-base", "--end-of-options", one, other)
                .decode("ascii", "replace")
                .split("\n")[0]
            )
        except GitError:
            return None

    def is_shallow(self) -> bool:
        """Whether history ends before its beginning here."""
        return self._run("rev-parse", "--is-shallow-repository").strip() == b"true"

    def changed(self, base: str, head: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits; both paths of a renamed file."""
        return _paths(self._run(*_DIFF, "--end-of-options", base, head, "--"))

    def files_at(self, rev: str) -> frozenset[str]:
        """Return every path in the tree of *rev*."""
        return frozenset(
            _paths(self._run("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", rev))
        )

    def files_here(self) -> frozenset[str]:
        """Return the paths of the working tree: tracked ones that still exist, and new ones that are not ignored."""
        here = _paths(self._run("ls-files", "-z", "--cached", "--others", "--exclude-standard"))
        gone = _paths(self._run("ls-files", "-z", "--deleted"))
        return frozenset(here) - frozenset(gone)

    def links_here(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tracked symbolic links and the submodules of the working tree."""
        found: dict[str, list[str]] = {_LINK: [], _SUBMODULE: []}
        for entry in _paths(self._run("ls-files", "-z", "--stage")):
            facts, _, path = entry.partition("\t")
            found.get(facts.split(" ")[0], []).append(path)
        return tuple(found[_LINK]), tuple(found[_SUBMODULE])

    def uncommitted(self) -> int:
        """Return how many paths of the working tree differ from the last commit."""
        status = _paths(self._run("status", "--porcelain", "-z", "--no-renames"))
        return len(status)

    def branches(self) -> tuple[str, ...]:
        """Return the short names of local and remote branches."""
        out = self._run("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes")
        return tuple(out.decode(errors="replace").split())

    def refresh(self, branch: str) -> str | None:
        """Fetch *branch* from origin; return what went wrong, or None."""
        spec = f"+refs/heads/{branch}:refs/remotes/origin/{branch}"
        try:
            self._run("fetch", "--quiet", "--no-tags", "--end-of-options", "origin", spec)
        except GitError as error:
            return str(error)
        return None

    def show(self, rev: str, path: str) -> str | None:
        """Return the text of *path* at *rev*, or None where *rev* has no such file. Raises GitError for a bad *rev*.

        Bytes that are not UTF-8 come back as lone surrogates, which the loader reports with their line.
        """
        try:
            blob = self._run("cat-file", "blob", "--end-of-options", f"{rev}:{path}")
        except GitError:
            if self.commit(rev) is None:
                raise GitError(f"{rev!r} is not a commit here") from None
            return None
        return blob.decode(errors="surrogateescape")

    def followed(self, rev: str, path: str) -> tuple[str, bytes]:
        """Return what *path* leads to at *rev*, links of the repository followed, and the bytes of that.

        It is a "blob" with its contents; a "symlink" with where it leads to out of the repository, from its root or
        absolute; "dangling" or "loop" for a link without an end, "missing", "notdir" or "tree" where there is no file.
        """
        asked = f"{rev}:{path}\n"
        answer = _git(self.root, "cat-file", "--batch", "--follow-symlinks", text=asked)
        head, _, body = answer.partition(b"\n")
        words = head.decode(errors="replace").split(" ")
        if len(words) < 2 or not words[-1].isdigit():
            return "missing", b""
        return words[-2], body[: int(words[-1])]

    def inside(self, rev: str, folder: str) -> tuple[str, ...]:
        """Return the names in *folder* at *rev*, links of the repository followed; none where it is no folder."""
        asked = f"{rev}:{folder}\n"
        answer = _git(self.root, "cat-file", "--batch-check", "--follow-symlinks", text=asked).split()
        if answer[1:2] != [b"tree"]:
            return ()
        tree = answer[0].decode("ascii")
        return _paths(self._run("ls-tree", "-z", "--name-only", "--full-tree", "--end-of-options", tree))

    def _run(self, *arguments: str) -> bytes:
        return _git(self.root, *arguments)


def _git(where: Path, *arguments: str, text: str = "") -> bytes:
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environ = {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = finish(["git", "-C", str(where), *arguments], seconds=_SECONDS, environ=environ, text=text)
    except FileNotFoundError:
        raise GitError("git is not installed, or not on PATH") from None
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    except ValueError:
        raise GitError(f"git {arguments[0]} cannot be asked about a name that no file can have") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]} did not finish within {_SECONDS} s") from None
    if done.code != 0:
        said = _first_line(done.err) or f"git {arguments[0]} ended with {done.code}"
        # "…: <path>" instead is a broken pointer to a repository that should be there
        raise (NoRepositoryError if said.startswith("not a git repository (or any") else GitError)(said)
    return done.out


def _first_line(stderr: bytes) -> str:
    lines = strip_controls(stderr.decode(errors="replace")).strip().splitlines()
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    return said.removeprefix("fatal: ").removeprefix("error: ")


def _paths(output: bytes) -> tuple[str, ...]:
    return tuple(part.decode(errors="backslashreplace") for part in output.split(b"\0") if part)
