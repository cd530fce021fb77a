"""Mistakes that only the collected tests can show, told once and as a usage error, with xdist too.

A worker cannot end the session with exit code 4 by itself: it empties its selection and tells the controller.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

import pytest

from omni_hardware.vocabulary import DEFAULT
from pytest_omni.arming import arming_of
from pytest_omni.marks import FRESH_PROCESS, MARK, is_declared
from pytest_omni.selection.mark_names import declared, named

FIXTURES = frozenset(
    {"devices", "omni_server", "omni_server_function", "omni_runner", "omni_runner_function"}
)
# Words of every day: a project that has lost such a fixture of its own is not told to arm us before its tests run.
_COMMON_FIXTURES = frozenset({"offline_client", "online_client", "run_level"})
HOOK = "pytest_omni_server_command"
ENGINE_HOOK = "pytest_omni_engine"
_COMMAND = (
    HOOK,
    f"no command to run; implement the hook {HOOK}(config, params, port)",
    "the command line as a list",
)
_ENGINE = (ENGINE_HOOK, f"no engine to give; implement the hook {ENGINE_HOOK}(config, params)", "the engine")
# fixture → the hook that it cannot do without, what to say, what the hook returns
_NEEDED_HOOKS = {
    "omni_server": _COMMAND,
    "omni_server_function": _COMMAND,
    "omni_runner": _ENGINE,
    "omni_runner_function": _ENGINE,
}
_SENT = "omni_usage_error"
_TOLD = pytest.StashKey[str]()
_REFUSED = pytest.StashKey[tuple[str, str]]()
_NOT_FOUND = re.compile(r"^'(?P<name>[^']+)' not found in `markers`")  # pytest's words under --strict-markers


def mistake(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    """Return what is wrong with the use of our fixtures and markers in *items*, or None."""
    if not arming_of(config).armed:
        found = next(_unarmed_uses(config, items), None)
        return None if found is None else _not_armed(config, *found)
    from pytest_omni.selection import misuses  # an unarmed session never comes here

    if complaint := misuses.complaint(items):
        return complaint
    hooks = config.pluginmanager.hook
    missing = {
        fixture: need
        for fixture, need in _NEEDED_HOOKS.items()
        if not getattr(hooks, need[0]).get_hookimpls()
    }
    return next(_without_hook(missing, items), None) if missing else None


def remember_refusal(collector: pytest.Collector, error: BaseException) -> None:
    """Keep that strict markers refused a file for one of our words; the file has no items to look at then."""
    hit = _NOT_FOUND.match(str(error))
    if hit and hit["name"] in _our_words() and not arming_of(collector.config).armed:
        collector.config.stash.setdefault(_REFUSED, (collector.nodeid, f"marker {hit['name']!r}"))


def at_run_time(item: pytest.Item, error: BaseException | None) -> str | None:
    """Return what to do about a fixture of ours that a test asked for by getfixturevalue(), unarmed; or None."""
    if not isinstance(error, pytest.FixtureLookupError) or error.argname not in FIXTURES | _COMMON_FIXTURES:
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


@contextmanager
def passed_on(config: pytest.Config) -> Iterator[None]:
    """Leave a usage error from within for the controller: pytest-xdist drops a worker's, and the run ends with 5."""
    try:
        yield
    except pytest.UsageError as error:
        output: dict[str, object] = getattr(config, "workeroutput", {})
        output.setdefault(_SENT, "\n".join(map(str, error.args)))
        raise


def is_reported(config: pytest.Config) -> bool:
    """Return whether this worker has left a mistake for the controller."""
    return _SENT in getattr(config, "workeroutput", ())


def receive(config: pytest.Config, workeroutput: dict[str, object]) -> None:
    """Keep what a worker reported; they all report the same."""
    if message := workeroutput.get(_SENT):
        config.stash[_TOLD] = str(message)


def conclude(session: pytest.Session) -> None:
    """End the controller's session with exit code 4 if a worker reported a mistake."""
    if message := session.config.stash.get(_TOLD, None):
        sys.stderr.write(f"ERROR: {message}\n")
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


def _without_hook(missing: Mapping[str, tuple[str, str, str]], items: Iterable[pytest.Item]) -> Iterator[str]:
    asked = [getattr(item, "fixturenames", ()) for item in items]
    if missing.keys().isdisjoint(chain.from_iterable(asked)):
        return
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in missing:
                _, what, returned = missing[fixture]
                yield f"{item.nodeid}: {fixture} has {what} in a conftest.py and return {returned}"


def _not_armed(config: pytest.Config, where: str, what: str) -> str:
    own = ", or register the marker, if it is your own" if what.startswith("marker") else ""
    return (
        f"{where}: {what} belongs to pytest-omni, which is not armed in this project; "
        f"{arming_of(config).remedy}{own}"
    )


def _our_words() -> set[str]:
    # Selection marks and topics are words of every day: many a project has an undeclared "slow" or "benchmark".
    return (set(DEFAULT.words()) | {FRESH_PROCESS}) - {*DEFAULT.selection, *DEFAULT.topics}


def _unarmed_uses(config: pytest.Config, items: Iterable[pytest.Item]) -> Iterator[tuple[str, str]]:
    if refused := config.stash.get(_REFUSED, None):
        yield refused
    ours = _our_words().difference(declared(config))
    looked_at = ours | {MARK}
    for group, names in named(items):
        is_clear = looked_at.isdisjoint(names)  # a project that is not ours must not feel that we looked
        for item in group:
            if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
                yield from ((item.nodeid, f"fixture {name!r}") for name in _unmet(item))
            if is_clear:
                continue
            for mark in item.iter_markers():
                if mark.name in ours:
                    yield item.nodeid, f"marker {mark.name!r}"
                if mark.name == MARK and is_declared(mark):
                    yield item.nodeid, "hardware_test"


def _unmet(item: pytest.Item) -> list[str]:
    # A project may well have a fixture of that name by itself. Private, but there is no public question for it;
    # without the attribute nobody is refused.
    known = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", FIXTURES)
    return [name for name in getattr(item, "fixturenames", ()) if name in FIXTURES and name not in known]
