"""The plugin inside a fresh process: runs one test of the session that started it, and reports to that session only."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pytest_omni.arming import arming_of
from pytest_omni.isolation.fresh_reports import append, serialised
from pytest_omni.options import overrule

# What belongs to the session as a whole: workers, shards, stops and re-runs, reports and caches.
_SESSION_ONLY: Mapping[str, Any] = MappingProxyType(
    {
        "numprocesses": None,
        "maxprocesses": None,
        "dist": "no",
        "tx": [],
        "distload": False,
        "looponfail": False,
        "num_shards": 1,
        "shard_id": 0,
        "usepdb": False,
        "trace": False,
        "setupshow": False,
        "maxfail": 0,
        "reruns": None,
        "xmlpath": None,
        "htmlpath": None,
        "report_log": None,
        "pastebin": None,
        "cacheclear": False,
        "lf": False,
        "failedfirst": False,
        "newfirst": False,
        "stepwise": False,
        "stepwise_skip": False,
        "stepwise_reset": False,
    }
)
_OMNI_SESSION_ONLY: Mapping[str, Any] = MappingProxyType(
    {
        "max_skips": None,
        "report": None,
        "shard": None,
        "shard_plan": False,
        "shard_durations": None,
        "doctor": False,
    }
)
# The terminal is the other session's, and so is the cache of what failed last.
_BLOCKED = ("lfplugin", "nfplugin", "stepwiseplugin")
_RERUNS = "rerunfailures"
_TERMINAL = "terminalreporter"


class _SilentTerminal:
    """A terminal reporter that hears of nothing and prints nowhere: its hooks are not seen on this object.

    Without any, pytest 8 cannot explain a comparison: it asks the terminal for its colours.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._reporter = pytest.TerminalReporter(config, io.StringIO())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reporter, name)


class Reporter:
    """Turns a session with the other one's arguments into one that runs *request*'s test and nothing else."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._reports = Path(request["reports"])
        self._found = self._explained = False
        self._config: pytest.Config

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Leave out what is the other session's business, before anybody acts on it."""
        self._config = config
        for name, value in {**_SESSION_ONLY, **self._request["options"]}.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        config.args[:] = [self._request["target"]]
        for name in _BLOCKED:
            config.pluginmanager.set_blocked(name)

    @pytest.hookimpl(trylast=True, specname="pytest_configure")
    def pytest_omni_silence(self, config: pytest.Config) -> None:
        """Take the terminal's place."""
        if config.pluginmanager.unregister(name=_TERMINAL):
            config.pluginmanager.register(_SilentTerminal(config), _TERMINAL)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """The same for our own settings, wherever they come from."""
        if arming_of(config).armed:
            overrule(config, **_OMNI_SESSION_ONLY)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the one test: a name without brackets also selects every parameter of it."""
        items[:] = [item for item in items if item.nodeid == self._request["nodeid"]][:1]
        self._found = bool(items)
        if config.pluginmanager.has_plugin(
            _RERUNS
        ):  # flaky tests are run again out there, in a process of their own
            config.pluginmanager.unregister(name=_RERUNS)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say why a file could not be collected here, although it could be there."""
        if report.failed:
            self._explained = True
            self._write({"said": f"{report.nodeid} could not be collected in it:\n{report.longreprtext}"})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a phase's report at once: the next phase may be the last thing that this process does."""
        self._write({"report": serialised(self._config, report)})

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Say who wanted the session to end: over there it goes on."""
        self._write({"said": f"the test ended its session: {excinfo.typename}: {excinfo.value}"})

    def pytest_internalerror(self, excrepr: object) -> None:
        """Say what broke pytest itself."""
        self._write({"said": f"pytest failed inside it:\n{excrepr}"})

    def pytest_sessionfinish(self) -> None:
        """Say that there was nothing to run."""
        if not (self._found or self._explained):
            self._write({"said": f"it did not select {self._request['nodeid']}"})

    def _write(self, row: Mapping[str, Any]) -> None:
        append(self._reports, row)
