"""Whether this session is ours: a project or a run asks for the plugin, else nothing changes for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from omni_hardware.errors import InputError
from omni_hardware.project import is_armed, load_project
from omni_hardware.vocabulary import DEFAULT, Vocabulary
from pytest_omni import command_line, options

LINE_TO_ADD = "[tool.omni]"


@dataclass(frozen=True, slots=True)
class Arming:
    """The one decision of a session; *problem* is a user's mistake, raised where pytest can report it."""

    armed: bool
    pyproject: Path
    vocabulary: Vocabulary = DEFAULT
    problem: str | None = None
    because: str = "nothing asks for it"

    @property
    def remedy(self) -> str:
        """Return what to write where, so that every run here is ours; pytest's root may well have no such file."""
        absent = "" if self.pyproject.exists() else " (which does not exist yet: create it)"
        return f"add the line {LINE_TO_ADD} to {self.pyproject}{absent}"


_ARMING = pytest.StashKey[Arming]()


def arming_of(config: pytest.Config) -> Arming:
    """Return the decision for *config*; the first call decides, and conftests are not loaded yet by then."""
    if _ARMING not in config.stash:
        config.stash[_ARMING] = decide(_pyproject(config), options.given_to(config))
    return config.stash[_ARMING]


def decide(pyproject: Path, given: Mapping[str, options.Given]) -> Arming:
    """Return whether *pyproject* or a setting arms the plugin, and the vocabulary that the project has."""
    root = pyproject.parent
    try:
        if is_armed(root):
            because = f"{pyproject.name} {LINE_TO_ADD}"
            return Arming(True, pyproject, vocabulary=load_project(root), because=because)
    except InputError as error:
        return Arming(True, pyproject, problem=str(error), because=str(pyproject))
    asked = next(iter(given.values()), None)
    return Arming(False, pyproject) if asked is None else Arming(True, pyproject, because=asked.source)


@contextmanager
def around_conftests(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> Iterator[None]:
    """Decide before the conftests are imported; afterwards see which flags they have taken for themselves."""
    command_line.read_first_look(config, args)
    declared = arming_of(config).armed
    with command_line.clashes_explained():
        if declared:
            command_line.declare_common_flags(config, parser, args)
        _arm(config)
        yield
        if declared or pytest.version_tuple < (9,):
            parser.parse_known_args(args)  # pytest before 9 finds out when it next parses
        if (
            not declared
            and command_line.mentions_common_flag(args)
            and not command_line.has_taken_flags(parser)
        ):
            # A project that has such a flag of its own keeps it: then this is not ours.
            command_line.declare_common_flags(config, parser, args)
            del config.stash[_ARMING]
            _arm(config)


def configure(config: pytest.Config) -> None:
    """Raise as pytest.UsageError what is wrong with the project's table or with a setting."""
    if problem := arming_of(config).problem:
        raise pytest.UsageError(problem)
    if arming_of(config).armed:
        options.settings_of(config)
    _arm(config)  # again, for a plugin that a conftest brought in: nothing was asked before it


def _arm(config: pytest.Config) -> None:
    arming = arming_of(config)
    if arming.armed and not arming.problem:
        from pytest_omni import armed  # an unarmed session loads nothing more

        armed.arm(config)


def _pyproject(config: pytest.Config) -> Path:
    # with `-c other/pyproject.toml --rootdir .` the config file wins over the root folder
    config_file = config.inipath
    if config_file is not None and config_file.name == "pyproject.toml":
        return config_file
    return config.rootpath / "pyproject.toml"
