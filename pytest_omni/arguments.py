"""What the command line asks for, judged before a worker starts: workers could only fail one by one."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from omni_hardware.expression import Expression, unknown_names
from pytest_omni.selection.mark_names import declared


def mistakes(config: pytest.Config, expression: Expression | None) -> list[str]:
    """Return what is wrong with ``-m`` and, where pytest would not say it, with the paths."""
    found = [] if expression is None else marker_mistakes(expression, declared(config))
    if has_workers(config):  # pytest-xdist's controller collects nothing, and so says nothing
        found += missing_paths(config.args, config.invocation_params.dir, pyargs=config.option.pyargs)
    return found


def has_workers(config: pytest.Config) -> bool:
    """Return whether this is the controller of a pytest-xdist session."""
    return not hasattr(config, "workerinput") and config.getoption("dist", default="no") != "no"


def marker_mistakes(expression: Expression, known: Collection[str]) -> list[str]:
    """Return one line for each name in *expression* that no marker has; pytest before 9.2 says nothing."""
    lines = [f"-m {message}" for message in unknown_names(expression, known)]
    if lines:
        lines.append("declare markers of your own in pytest's markers setting, or as topics in [tool.omni]")
    return lines


def missing_paths(arguments: Iterable[str], folder: Path, *, pyargs: bool) -> list[str]:
    """Return pytest's own line for each argument whose file or folder does not exist."""
    return [
        f"file or directory not found: {argument}"
        for argument in arguments
        if not _exists(argument.partition("[")[0].split("::")[0], folder, pyargs=pyargs)
    ]


def _exists(name: str, folder: Path, *, pyargs: bool) -> bool:
    return (folder / name).exists() or (pyargs and _is_module(name))


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False
