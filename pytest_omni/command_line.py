"""Flags and ini keys of the table in options.py, declared so that a project which is not ours keeps flags of its own."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_omni.options import NO, OPTIONS, YES, Kind, read

_COMMON_FLAGS = tuple(row.flag for row in OPTIONS if row.is_common)
_PATH_FLAGS = tuple(row.flag for row in OPTIONS if row.kind is Kind.PATH)
# where pytest looks for its configuration, and what has to stand in the file for that
_CONFIG_FILES = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}


def declare_ini(parser: pytest.Parser) -> None:
    """Declare the ini keys."""
    for row in OPTIONS:
        if row.ini:
            kind: Any = Kind.WORD if row.kind is Kind.PATH else row.kind
            parser.addini(row.ini, row.help, type=str(kind), default=None)  # type: ignore[arg-type]


def declare_flags(parser: pytest.Parser, *, common: bool) -> None:
    """Declare the flags with common names, or those that carry ours."""
    group = parser.getgroup("omni", "hardware, run levels and shards (pytest-omni)")
    for row in OPTIONS:
        if row.is_common != common:
            continue
        if row.kind is not Kind.SWITCH:
            group.addoption(row.flag, dest=row.dest, metavar=row.metavar, help=row.long_help)
            continue
        group.addoption(row.flag, dest=row.dest, action="store_const", const=YES[0], help=row.long_help)
        if row.ini or row.env:  # what the surroundings switch on, a run can switch off
            off = f"--no-{row.flag.removeprefix('--')}"
            group.addoption(off, dest=row.dest, action="store_const", const=NO[0], help=argparse.SUPPRESS)


def read_first_look(config: pytest.Config, args: Sequence[str]) -> None:
    """Read the settings from pytest's first look at *args*; pytest.UsageError where that look went wrong."""
    if problem := misread_path(config, args):
        raise pytest.UsageError(problem)
    read(config, config.known_args_namespace)


def declare_common_flags(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Declare the flags with common names after pytest's first look at *args*, and mend what it then took them for."""
    declare_flags(parser, common=True)
    seen = parser.parse_known_args(args)
    read(config, seen)
    config.known_args_namespace.file_or_dir = seen.file_or_dir  # the value of a flag is no path


def mentions_common_flag(args: Iterable[str]) -> bool:
    """Return whether a command line uses a flag with a common name, or asks which flags there are."""
    asked = {"-h", "--help", *_COMMON_FLAGS}
    return any(word.partition("=")[0] in asked for word in args)


def has_taken_flags(parser: pytest.Parser) -> bool:
    """Return whether somebody else has declared a flag with a common name already."""
    return not all(_is_free(parser, f"{flag}=x") for flag in _COMMON_FLAGS)


@contextmanager
def clashes_explained() -> Iterator[None]:
    """Turn the complaint about a flag of ours that somebody else declares too into pytest.UsageError."""
    try:
        yield
    except (argparse.ArgumentError, ValueError) as error:  # argparse's, and pytest's own since 9.2
        said = {word.strip("'\"[]{}:,") for word in str(error).split()}
        flag = next((row.flag for row in OPTIONS if row.flag in said), None)
        if flag is None:
            raise
        where = "in an armed session it is" if flag in _COMMON_FLAGS else "it is"
        raise pytest.UsageError(
            f"{flag}: a conftest.py or another plugin has this option too, and {where} pytest-omni's; "
            "remove or rename it there"
        ) from None


def misread_path(config: pytest.Config, args: Sequence[str]) -> str | None:
    """Return what to write instead of ``--flag FILE``, where pytest took FILE for tests and left this project.

    It looks for its configuration above what it takes for tests, long before a plugin can tell it better.
    """
    here, seen = config.invocation_params.dir, config.known_args_namespace
    given = [
        (flag, value) for flag, value in pairwise(args) if flag in _PATH_FLAGS and (here / value).exists()
    ]
    if not given or seen.inifilename:
        return None
    values = {value for _, value in given}
    start = _common_folder(here, [word for word in seen.file_or_dir if word not in values])
    above = (start, *start.parents)
    found = config.inipath.parent if config.inipath else None
    passed_over = above[: above.index(found)] if found in above else above
    for flag, value in given:
        folder = _folder(here, value)
        astray = found is not None and found not in above and folder.is_relative_to(found)
        if astray or any(map(_holds_settings, passed_over)):
            return (
                f"{flag} {value}: write {flag}={value} in one word, else pytest takes the file for a test "
                f"and looks for its configuration above {folder}"
            )
    return None


def _common_folder(here: Path, words: Iterable[str]) -> Path:
    paths = [word.partition("::")[0] for word in words]
    folders = [_folder(here, path) for path in paths if (here / path).exists()]
    return Path(os.path.commonpath(folders)) if folders else here


def _folder(here: Path, word: str) -> Path:
    path = Path(os.path.abspath(here / word))  # noqa: PTH100 as pytest does: ".." goes, a link stays
    return path if path.is_dir() else path.parent


def _holds_settings(folder: Path) -> bool:
    return any(
        (folder / name).is_file() and (not table or table in (folder / name).read_text("utf-8", "replace"))
        for name, table in _CONFIG_FILES.items()
    )


def _is_free(parser: pytest.Parser, word: str) -> bool:
    try:
        return word in parser.parse_known_and_unknown_args([word])[1]
    except pytest.UsageError:  # a flag that takes no such value
        return False
