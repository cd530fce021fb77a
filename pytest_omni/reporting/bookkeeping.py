"""The hooks that keep the session's book: who was deselected by whom, how each test went, and what it all means."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_omni.options import given_to, settings_of
from pytest_omni.reporting import results
from pytest_omni.reporting.ledger import ledger_of, merge, packed
from pytest_omni.selection import deselection
from pytest_omni.session import is_worker

_SENT = "omni_ledger"


def old_report_removed_at_load(config: pytest.Config) -> None:
    """Remove the last session's report before anything can end this one: it would be read as this one's."""
    asked, given = config.known_args_namespace, given_to(config)
    if "report" in given and not (asked.help or asked.version or "doctor" in given):
        from pytest_omni.reporting import report

        report.remove_old(given["report"].folder / Path(given["report"].text.strip()).expanduser())


def pytest_configure(config: pytest.Config) -> None:
    """Open the book."""
    if settings_of(config).report is not None:
        from pytest_omni.reporting import closing  # not needed while tests are collected, so not loaded then

        closing.check_report_path(config)
    config.pluginmanager.register(Bookkeeper(config), "omni-bookkeeper")


class Bookkeeper:
    """Hooks that pytest calls without a config."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ledger = ledger_of(config)
        self._to_send = is_worker(config)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """Enter what was collected before anybody drops a test, and take note of ids that somebody changes."""
        collected = items[:]
        ids = [item.nodeid for item in items]
        self._ledger.collected.update(dict.fromkeys(ids))
        yield
        now = [item.nodeid for item in collected]
        if now != ids:
            self._ledger.rename(dict(zip(ids, now, strict=True)))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Enter who was deselected."""
        deselection.enter(self._config, items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Enter what was dropped without a word."""
        deselection.close(self._config, session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Enter a file that skips itself or cannot be read: its tests are never heard of."""
        if report.skipped:
            self._ledger.skipped_files[report.nodeid] = results.reason(report)
        elif report.failed:
            self._ledger.results[report.nodeid or "."] = results.uncollected(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Enter how one phase of a test went; a worker's first report carries its book to the controller."""
        if self._to_send:
            self._to_send = False
            setattr(report, _SENT, self._packed())
        elif sent := report.__dict__.pop(_SENT, None):
            merge(self._ledger, sent)
        nodeid = self._ledger.plain(report.nodeid)
        result = results.after(report, self._ledger.results.get(nodeid), self._ledger.withheld.get(nodeid))
        if result is not None:
            self._ledger.results[nodeid] = result

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Enter what a worker selected: all that is known of it when the session is interrupted before a test."""
        self._ledger.selected.update(dict.fromkeys(ids))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Enter what a worker sent when it ended; once, since xdist may say twice that it did."""
        if sent := getattr(node, "workeroutput", {}).pop(_SENT, None):
            merge(self._ledger, sent)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Send the book, or judge the session by it: after everybody else has, before it is printed."""
        yield
        from pytest_omni.reporting import closing

        if is_worker(self._config):
            output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
            output[_SENT] = self._packed()
        else:
            closing.close(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why tests did not run."""
        from pytest_omni.reporting import closing

        closing.show(self._config, terminalreporter)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Write the exit code that the session really ends with."""
        from pytest_omni.reporting import closing

        closing.amend(config)

    def _packed(self) -> dict[str, Any]:
        return packed(self._ledger, ids=settings_of(self._config).report is not None)
