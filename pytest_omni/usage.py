"""Mistakes that only the collected tests can show, told once and as a usage error, with xdist too.

A worker cannot end the session with exit code 4 by itself: it empties its selection and tells the controller.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

import pytest

from omni_hardware.vocabulary import DEFAULT
from pytest_omni.arming import LINE_TO_ADD, arming_of

FIXTURES = frozenset({"omni_server"})
HOOK = "pytest_omni_server_command"
_SENT = "omni_usage_error"
_TOLD = pytest.StashKey[str]()
_REFUSED = pytest.StashKey[tuple[str, str]]()
_NOT_FOUND = re.compile(r"^'(?P<name>[^']+)' not found in `markers`")  # pytest's words under --strict-markers


def mistake(config: pytest.Config, items: Iterable[pytest.Item]) -> str | None:
    """Return what is wrong with the use of our fixtures and markers in *items*, or None."""
    if not arming_of(config).armed:
        found = next(_unarmed_uses(config, items), None)
        return None if found is None else _not_armed(config, *found)
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


def remember_refusal(collector: pytest.Collector, error: BaseException) -> None:
    """Keep that strict markers refused a file for one of our words; the file has no items to look at then."""
    hit = _NOT_FOUND.match(str(error))
    if hit and hit["name"] in _our_words() and not arming_of(collector.config).armed:
        collector.config.stash.setdefault(_REFUSED, (collector.nodeid, f"marker {hit['name']!r}"))


def at_run_time(item: pytest.Item, error: BaseException | None) -> str | None:
    """Return what to do about a fixture of ours that a test asked for by getfixturevalue(), unarmed; or None."""
    if not isinstance(error, pytest.FixtureLookupError) or error.argname not in FIXTURES:
        return None
    armed = arming_of(item.config).armed
    return None if armed else _not_armed(item.config, item.nodeid, f"fixture {error.argname!r}")


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


def _not_armed(config: pytest.Config, where: str, what: str) -> str:
    own = " (or register the marker, if it is your own)" if what.startswith("marker") else ""
    return (
        f"{where}: {what} belongs to pytest-omni, which is not armed in this project; "
        f"add the line {LINE_TO_ADD} to {arming_of(config).pyproject}{own}"
    )


def _our_words() -> set[str]:
    # Selection marks and topics are words of every day: many a project has an undeclared "slow" or "benchmark".
    return set(DEFAULT.words()) - {*DEFAULT.selection, *DEFAULT.topics}


def _unarmed_uses(config: pytest.Config, items: Iterable[pytest.Item]) -> Iterator[tuple[str, str]]:
    if refused := config.stash.get(_REFUSED, None):
        yield refused
    declared = {re.split(r"[:(]", line, maxsplit=1)[0].strip() for line in config.getini("markers")}
    ours = _our_words() - declared
    for item in items:
        yield from ((item.nodeid, f"fixture {name!r}") for name in _unmet(item))
        yield from (
            (item.nodeid, f"marker {mark.name!r}") for mark in item.iter_markers() if mark.name in ours
        )


def _unmet(item: pytest.Item) -> list[str]:
    # A project may well have a fixture of that name by itself. Private, but there is no public question for it;
    # without the attribute nobody is refused.
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", FIXTURES)
    return [name for name in getattr(item, "fixturenames", ()) if name in FIXTURES and name not in known]
