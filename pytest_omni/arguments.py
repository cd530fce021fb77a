"""What the command line asks for, judged before a worker starts: workers could only fail one by one."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_omni.options import OPTIONS
from pytest_omni.selection.mark_names import declared

if TYPE_CHECKING:
    from omni_hardware.expression import Expression

LEASE_TIMEOUT = "OMNI_LEASE_TIMEOUT"  # of cards/leases.py, which only sessions with devices load
_PREFIX = "OMNI_"
_NEAR = 0.8  # two letters in the wrong order; a project's own OMNI_… variables are further away


def mistakes(config: pytest.Config, expression: Expression | None) -> list[str]:
    """Return what is wrong with ``-m`` and, where pytest would not say it, with the paths."""
    found = [] if expression is None else marker_mistakes(expression, declared(config))
    if has_workers(config):  # pytest-xdist's controller collects nothing, and so says nothing
        found += missing_paths(config.args, config.invocation_params.dir, pyargs=config.option.pyargs)
    return found


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """Return what to say about each variable that is nearly one of ours: it would be passed over in silence."""
    known = {row.env.removeprefix(_PREFIX): row.env for row in OPTIONS if row.env}
    known[LEASE_TIMEOUT.removeprefix(_PREFIX)] = LEASE_TIMEOUT
    found = []
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in known.values():
            near = difflib.get_close_matches(name.removeprefix(_PREFIX).upper(), known, n=1, cutoff=_NEAR)
            found += [
                f"environment variable {name}: nobody reads it (did you mean {known[it]}?)" for it in near
            ]
    return found


def has_workers(config: pytest.Config) -> bool:
    """Return whether this is the controller of a pytest-xdist session."""
    return not hasattr(config, "workerinput") and config.getoption("dist", default="no") != "no"


def marker_mistakes(expression: Expression, known: Collection[str]) -> list[str]:
    """Return one line for each name in *expression* that no marker has; pytest before 9.2 says nothing."""
    from omni_hardware.expression import unknown_names

    lines = [f"-m {message}" for message in unknown_names(expression, known)]
    if lines:
        lines.append("declare markers of your own in pytest's markers setting, or as topics in [tool.omni]")
    return lines


def missing_paths(arguments: Iterable[str], folder: Path, *, pyargs: bool) -> list[str]:
    """Return pytest's own line for each argument whose file or folder does not exist."""
    return [
        f"file or directory not found: {argument}"
        for argument in arguments
        if not _exists(argument.split("::")[0], folder, pyargs=pyargs)
    ]


def _exists(name: str, folder: Path, *, pyargs: bool) -> bool:
    return (folder / name).exists() or (pyargs and _is_module(name))


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False
