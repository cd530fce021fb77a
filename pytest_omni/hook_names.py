"""A project's mistakes in the names of our hooks and of their arguments, told as such: pytest has a traceback for them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pluggy
import pytest

from omni_hardware.errors import did_you_mean
from pytest_omni import hookspecs

_OURS = "pytest_omni_"
_HOOK = re.compile(r"(?:unknown|for) hook '(?P<name>\w+)'")  # pluggy's words
_ARGUMENTS = re.compile(r"Argument\(s\) \{(?P<names>[^}]*)\}")


@contextmanager
def explained() -> Iterator[None]:
    """Turn pluggy's complaint about a hook of ours into pytest.UsageError."""
    try:
        yield
    except pluggy.PluginValidationError as error:
        hit = _HOOK.search(str(error))
        if hit is None or not hit["name"].startswith(_OURS):
            raise
        raise pytest.UsageError(_explanation(hit["name"], error)) from None


def require_known(config: pytest.Config) -> None:
    """Raise pytest.UsageError for a hook that only looks like one of ours; pytest itself asks after collection."""
    for message in _unknown_hooks(config):
        raise pytest.UsageError(message)


def withhold(session: pytest.Session) -> None:
    """Keep an xdist worker with such a hook from offering tests that it will not run."""
    if hasattr(session.config, "workerinput") and any(_unknown_hooks(session.config)):
        session.items.clear()


def _unknown_hooks(config: pytest.Config) -> Iterator[str]:
    for name, caller in list(vars(config.pluginmanager.hook).items()):
        if name.startswith(_OURS) and not caller.has_spec():
            yield from (
                _unknown(name, impl.plugin) for impl in caller.get_hookimpls() if not impl.optionalhook
            )


def _explanation(name: str, error: pluggy.PluginValidationError) -> str:
    spec = getattr(hookspecs, name, None)
    if spec is None:
        return _unknown(name, error.plugin)
    known = list(inspect.signature(spec).parameters)
    hit = _ARGUMENTS.search(str(error))
    if hit is None:
        return f"{_file(error.plugin)}: {str(error).splitlines()[-1]}"
    odd = re.findall(r"'(\w+)'", hit["names"])
    hint = did_you_mean(odd[0], known) if odd else ""
    return f"{_file(error.plugin)}: {name} has no argument {', '.join(map(repr, odd))}{hint}; it may take {', '.join(known)}"


def _unknown(name: str, plugin: Any) -> str:
    known = [spec for spec in vars(hookspecs) if spec.startswith(_OURS)]
    return f"{_file(plugin)}: unknown hook {name!r}{did_you_mean(name, known)}"


def _file(plugin: Any) -> str:
    return str(getattr(plugin, "__file__", None) or plugin)
