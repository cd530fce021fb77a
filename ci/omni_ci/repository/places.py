"""Where files are read from: the working tree, or a commit."""

from __future__ import annotations

import errno
import os
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
        except ValueError:
            return None  # no file can have a name with a NUL, or one that is no text
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
        """Return the text of *path* at the commit, or None. Raises GitError, InputError for a link that leads nowhere.

        Links are followed as the working tree's are; one that leads out of the repository is read from disk.
        """
        if PurePosixPath(path).is_absolute():
            return Tree(self.root).read(path)
        if not self._holds(path):
            return None
        if path not in self._read:
            self._read[path] = self._text(path)
        return self._read[path]

    def _text(self, path: str) -> str | None:
        if "\n" in path:
            return self._repository.show(self._commit, path)
        kind, found = self._repository.followed(self._commit, path)
        match kind:
            case "blob":
                return found.decode("utf-8", "surrogateescape")
            case "symlink":
                return Tree(self.root).read(os.fsdecode(found))
            case "dangling" | "loop" if path in self._tree:
                what = f"{path}: is a link that leads nowhere at {self._commit[:12]}"
                raise InputError(f"{what}; mend the link or take it away")
            case _:
                return None

    def listed(self, folder: str) -> Sequence[str]:
        prefix = f"{folder}/"
        if self._holds(folder):  # as a link
            return [prefix + name for name in sorted(self._repository.inside(self._commit, folder))]
        return sorted(
            path for path in self._tree if path.startswith(prefix) and "/" not in path[len(prefix) :]
        )

    def _holds(self, path: str) -> bool:
        """Whether *path* is one of the commit's, or stands below one, which may be a link to a folder."""
        return any(str(one) in self._tree for one in (PurePosixPath(path), *PurePosixPath(path).parents))
