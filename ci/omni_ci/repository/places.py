"""Where files are read from: the working tree, or a commit."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from omni_ci.repository.git import Repository
from omni_hardware.errors import InfrastructureError, InputError

# Where Buildkite, and everyone who writes for it, keeps pipelines.
FOLDER = ".buildkite"


@dataclass(frozen=True, slots=True)
class Tree:
    """The working tree."""

    root: Path

    def read(self, path: str) -> str | None:
        """Return the text of *path*, None where there is none; an absolute path is read as it is.

        Raises InputError for a folder and for a link that leads nowhere, InfrastructureError where it is unreadable.
        Bytes that are not UTF-8 become lone surrogates, which the loader reports with their line.
        """
        try:
            return (self.root / path).read_bytes().decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            if (link := self.root / path).is_symlink():
                what = f"{path}: is a link to {link.readlink()}, which does not exist"
                raise InputError(f"{what}; mend the link or take it away") from None
            return None
        except IsADirectoryError:
            raise InputError(
                f"{path}: is a folder, where a file is read; take it away or name a file"
            ) from None
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return None  # no file can have that name
            raise InfrastructureError(f"{path}: cannot be read: {error.strerror}") from error

    def listed(self, folder: str) -> Sequence[str]:
        here = self.root / folder
        names = sorted(entry.name for entry in here.iterdir() if entry.is_file()) if here.is_dir() else []
        return [f"{folder}/{name}" for name in names]


class Commit:
    """A commit; what lies outside the repository is read from disk."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit
        self._tree = repository.files_at(commit)
        self._read: dict[str, str | None] = {}

    @property
    def root(self) -> Path:
        return self._repository.root

    def read(self, path: str) -> str | None:
        """Return the text of *path* at the commit, or None. Raises GitError."""
        if PurePosixPath(path).is_absolute():
            return Tree(self.root).read(path)
        if path not in self._tree:
            return None
        if path not in self._read:
            self._read[path] = self._repository.show(self._commit, path)
        return self._read[path]

    def listed(self, folder: str) -> Sequence[str]:
        prefix = f"{folder}/"
        return sorted(
            path for path in self._tree if path.startswith(prefix) and "/" not in path[len(prefix) :]
        )
