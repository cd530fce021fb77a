"""Where a repository begins, which pipelines it has, and how it calls a path."""

from __future__ import annotations

import os
from pathlib import Path

from omni_ci.repository.git import NoRepositoryError, Repository
from omni_ci.repository.places import FOLDER

PIPELINES = f"{FOLDER}/*/test-*.yml"


def repository_root(here: Path) -> Path:
    """Return the root of the repository around *here*; *here* itself where there is none.

    Raises GitError where git is missing or refuses: another folder would be taken for the root.
    """
    try:
        return Repository.around(here).root
    except NoRepositoryError:
        return here.resolve()


def pipeline_names(root: Path) -> list[str]:
    """Return every `.buildkite/*/test-*.yml` of the repository, sorted."""
    return sorted(path.relative_to(root).as_posix() for path in root.glob(PIPELINES))


def named_from_root(path: str, *, root: Path, here: Path) -> str:
    """Return *path* as the repository knows it: from its root, absolute outside of it."""
    # os.path: Path.exists raises for a name that is too long
    full = here / path if os.path.exists(here / path) else root / path  # noqa: PTH110
    full = Path(os.path.normpath(full.absolute()))
    real = root.resolve()
    for base in (root, real):
        if full.is_relative_to(base):
            return full.relative_to(base).as_posix()
    return str(full)
