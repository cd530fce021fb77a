"""Whether this session is ours: a project asks for the plugin with ``[tool.omni]``, else nothing changes for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_hardware.errors import InputError
from omni_hardware.project import is_armed, load_project
from omni_hardware.vocabulary import DEFAULT, Vocabulary

LINE_TO_ADD = "[tool.omni]"


@dataclass(frozen=True, slots=True)
class Arming:
    """The one decision of a session; *problem* is a user's mistake, raised where pytest can report it."""

    armed: bool
    pyproject: Path
    vocabulary: Vocabulary = DEFAULT
    problem: str | None = None

    def header(self) -> str:
        """Return the line that says which words this session knows."""
        words = self.vocabulary
        skus = sum(len(row.skus) for row in words.platforms if row.gpu or row.visibility)
        return (
            f"omni: {len(words.platforms)} platforms, {skus} SKUs, "
            f"levels {' < '.join(words.levels)} ({self.pyproject.name} {LINE_TO_ADD})"
        )


_ARMING = pytest.StashKey[Arming]()


def arming_of(config: pytest.Config) -> Arming:
    """Return the decision for *config*; the first call decides, and conftests are not loaded yet by then."""
    if _ARMING not in config.stash:
        config.stash[_ARMING] = decide(_pyproject(config))
    return config.stash[_ARMING]


def decide(pyproject: Path) -> Arming:
    """Return whether *pyproject* arms the plugin, and the vocabulary it gives."""
    root = pyproject.parent
    try:
        if not is_armed(root):
            return Arming(armed=False, pyproject=pyproject)
        return Arming(armed=True, pyproject=pyproject, vocabulary=load_project(root))
    except InputError as error:
        return Arming(armed=True, pyproject=pyproject, problem=str(error))


def _pyproject(config: pytest.Config) -> Path:
    # with `-c other/pyproject.toml --rootdir .` the config file wins over the root folder
    config_file = config.inipath
    if config_file is not None and config_file.name == "pyproject.toml":
        return config_file
    return config.rootpath / "pyproject.toml"
