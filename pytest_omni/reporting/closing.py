"""The end of a session: what the book says is judged, shown and written down."""

from __future__ import annotations

import pytest

from omni_hardware.errors import InfrastructureError
from pytest_omni import heading
from pytest_omni.machine import machine_of
from pytest_omni.options import settings_of
from pytest_omni.reporting import outcome, report, summary
from pytest_omni.reporting.ledger import Kind, State, ledger_of
from pytest_omni.run_level import level_of
from pytest_omni.session import is_worker

# options of pytest's own, the first that is set counts: --setup-plan sets setuponly too
_LISTINGS = {
    "collectonly": "--collect-only runs nothing",
    "setupplan": "--setup-plan runs nothing",
    "setuponly": "--setup-only calls no test",
}
_FAILURES = (State.FAILED, State.ERROR)
_OUTCOME = pytest.StashKey[outcome.Outcome]()
_WRITTEN = pytest.StashKey[report.Header]()
_SHOWN = pytest.StashKey[bool]()


def check_report_path(config: pytest.Config) -> None:
    """Refuse a report file that cannot be written, before hours are spent on what it should hold."""
    path = settings_of(config).report
    if path is None or is_worker(config):
        return
    try:
        report.check_writable(path)
    except InfrastructureError as error:
        source = settings_of(config).sources["report"]
        raise pytest.UsageError(f"{source} {path}: not a file that can be written: {error}") from None


def close(session: pytest.Session) -> None:
    """Judge the session by its book, and write the report."""
    config = session.config
    if _only_lists(config):
        ledger_of(config).forget_unfinished()
    else:
        _judge(session)
    _write(session)


def _only_lists(config: pytest.Config) -> str | None:
    """Return why this session calls no test, if it does not."""
    if settings_of(config).shard_plan:
        return "--shard-plan runs nothing"
    return next((because for dest, because in _LISTINGS.items() if config.getoption(dest, None)), None)


def _judge(session: pytest.Session) -> None:
    config, settings = session.config, settings_of(session.config)
    facts = outcome.facts_of(
        ledger_of(config),
        exit=int(session.exitstatus),
        strict=settings.strict,
        max_skips=settings.max_skips,
    )
    found = config.stash[_OUTCOME] = outcome.conclude(facts)
    if found.exit != facts.exit:
        session.exitstatus = found.exit


def show(config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
    """Print the section about tests that did not run, if there is one, and that devices are made up, if they are."""
    found = config.stash.get(_OUTCOME, None)
    config.stash[_SHOWN] = True
    if found is None or (config.getoption("no_summary", default=False) and not found.failed):
        return
    inventory = machine_of(config).inventory
    unsaid = config.get_verbosity() < 0 or config.getoption("no_header", default=False)
    if inventory.source.startswith("file") and unsaid:  # green on devices that nobody has looks like green
        reporter.ensure_newline()
        reporter.write_line(f"omni: devices {heading.sight(inventory)}", yellow=True)
    shown = summary.lines(ledger_of(config), found, verbose=config.get_verbosity() > 0)
    if not shown:
        return
    if config.get_verbosity() < 0 and not found.because:
        reporter.ensure_newline()
        reporter.write_line(summary.brief(ledger_of(config)), yellow=True)
        return
    reporter.ensure_newline()
    reporter.section(summary.TITLE, yellow=not found.failed, red=found.failed)
    for line in shown:
        reporter.write_line(line.text, red=line.bad)


def amend(config: pytest.Config) -> None:
    """Say why a session is red where nobody asked for a summary, and write the report again where the exit code changed.

    With --no-summary pytest 8 calls no hook for it; SIGTERM is told at the very end.
    """
    found = config.stash.get(_OUTCOME, None)
    reporter: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
    if found is not None and found.failed and reporter and _SHOWN not in config.stash:
        show(config, reporter)
    session: pytest.Session | None = config.pluginmanager.getplugin("session")
    written = config.stash.get(_WRITTEN, None)
    if session is not None and written is not None and written.exit != int(session.exitstatus):
        _write(session)


def _write(session: pytest.Session) -> None:
    config = session.config
    path = settings_of(config).report
    if path is None:
        return
    header = config.stash[_WRITTEN] = _header(session)
    try:
        report.write(path, report.document(ledger_of(config), header))
    except InfrastructureError as error:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        del config.stash[_WRITTEN]  # told once
        reporter = config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(f"ERROR: {error}", red=True)


def _header(session: pytest.Session) -> report.Header:
    config, machine = session.config, machine_of(session.config)
    ended, kind = _ended(session)
    return report.Header(
        exit=int(session.exitstatus),
        asked=machine.asked,
        detected=machine.detected,
        source=machine.inventory.source if machine.inventory.source.startswith("file") else None,
        run_level=level_of(config).name,
        marks=config.option.markexpr or "",
        ended=ended,
        ended_kind=kind,
    )


def _ended(session: pytest.Session) -> tuple[str, Kind]:
    """Return why tests that were selected had no turn."""
    option = session.config.option
    if because := _only_lists(session.config):
        return because, Kind.USER
    failures = sum(1 for result in ledger_of(session.config).results.values() if result.state in _FAILURES)
    if option.maxfail and failures >= option.maxfail:
        return f"the session stopped after {failures} failure{'s' if failures > 1 else ''}", Kind.BUDGET
    if session.exitstatus == pytest.ExitCode.USAGE_ERROR:
        return "the session ended with a usage error", Kind.USER
    return "the session ended before its turn", Kind.USER
