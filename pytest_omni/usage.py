"""Mistakes that only the collected tests can show, told once and as a usage error, with xdist too.

A worker cannot end the session with exit code 4 by itself: it empties its selection and tells the controller.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest

from pytest_omni.arming import LINE_TO_ADD, arming_of

FIXTURES = frozenset({"omni_server"})
HOOK = "pytest_omni_server_command"
_SENT = "omni_usage_error"
_TOLD = pytest.StashKey[str]()


def mistake(config: pytest.Config, items: Iterable[pytest.Item]) -> str | None:
    """Return what is wrong with the use of our fixtures in *items*, or None."""
    arming = arming_of(config)
    if not arming.armed:
        found = next(((item, name) for item in items for name in _unmet(item)), None)
        return (
            None
            if found is None
            else (
                f"{found[0].nodeid}: fixture {found[1]!r} belongs to pytest-omni, which is not armed in this project; "
                f"add the line {LINE_TO_ADD} to {arming.pyproject}"
            )
        )
    if config.pluginmanager.hook.pytest_omni_server_command.get_hookimpls():
        return None
    user = next((item for item in items if "omni_server" in getattr(item, "fixturenames", ())), None)
    return (
        None
        if user is None
        else (
            f"{user.nodeid}: omni_server has no command to run; implement the hook "
            f"{HOOK}(config, params, port) in a conftest.py and return the command line as a list"
        )
    )


def report(config: pytest.Config, items: list[pytest.Item], message: str) -> None:
    """Raise *message* as a usage error, or in a worker leave it for the controller."""
    output: dict[str, object] | None = getattr(config, "workeroutput", None)
    if output is None:
        raise pytest.UsageError(message)
    output[_SENT] = message
    items.clear()


def receive(config: pytest.Config, workeroutput: dict[str, object]) -> None:
    """Keep what a worker reported; they all report the same."""
    if message := workeroutput.get(_SENT):
        config.stash[_TOLD] = str(message)


def conclude(session: pytest.Session) -> None:
    """End the controller's session with exit code 4 if a worker reported a mistake."""
    if message := session.config.stash.get(_TOLD, None):
        sys.stderr.write(f"ERROR: {message}\n")
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


def _unmet(item: pytest.Item) -> list[str]:
    # A project may well have a fixture of that name by itself. Private, but there is no public question for it;
    # without the attribute nobody is refused.
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", FIXTURES)
    return [name for name in getattr(item, "fixturenames", ()) if name in FIXTURES and name not in known]
