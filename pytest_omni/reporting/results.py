"""How one test went, phase by phase, from pytest's reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_omni.reporting.ledger import Kind, Result, State, Withheld

_SKIPPED = "Skipped: "
_RERUN = "rerun"  # pytest-rerunfailures: what counts is the run that follows
_UNFINISHED = "it was running when the session ended"


def after(report: pytest.TestReport, before: Result | None, withheld: Withheld | None) -> Result | None:
    """Return the result once *report* is known; a set-up starts afresh, since tests may be repeated."""
    if report.outcome == _RERUN:
        return before
    if report.when == "setup":
        state, because = _setup(report)
        before = Result(state, because, setup_s=report.duration)
    elif report.when == "teardown":
        return _torn_down(report, before)
    else:  # call, or "???" where a worker of xdist crashed
        state, because = _call(report)
        if before and before.state is State.FAILED and not report.failed:  # a failed subtest stays
            state, because = before.state, before.because
        before = replace(before or Result(state), state=state, because=because, call_s=report.duration)
    return _explained(before, withheld)


def uncollected(report: pytest.CollectReport) -> Result:
    """Return the result of a file whose tests could not be collected."""
    lines = [line.strip() for line in str(report.longrepr or "").splitlines()]
    told = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")] or lines
    return Result(State.ERROR, next(filter(None, told), "it could not be collected"))


def _setup(report: pytest.TestReport) -> tuple[State, str | None]:
    if report.passed:
        return State.NOT_RUN, _UNFINISHED
    if report.failed:
        return State.ERROR, _cause(report)
    return _skipped(report)


def _call(report: pytest.TestReport) -> tuple[State, str | None]:
    if report.failed:
        return State.FAILED, _cause(report)
    if report.passed:
        expected = getattr(report, "wasxfail", None)
        return (State.PASSED, None) if expected is None else (State.XPASSED, expected or None)
    return _skipped(report)


def _skipped(report: pytest.TestReport) -> tuple[State, str | None]:
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return State.XFAILED, expected or None
    return State.SKIPPED, reason(report)


def _torn_down(report: pytest.TestReport, before: Result | None) -> Result | None:
    if not report.failed or (before and before.state is State.FAILED):
        return before
    return replace(before or Result(State.ERROR), state=State.ERROR, because=_cause(report), kind=None)


def _explained(result: Result, withheld: Withheld | None) -> Result:
    if result.state is not State.SKIPPED:
        return replace(result, kind=None)
    if withheld and withheld.state is State.SKIPPED:
        return replace(result, because=withheld.because, kind=withheld.kind)
    return replace(result, kind=Kind.USER)


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test or a file was skipped, as its author put it."""
    place = report.longrepr
    text = place[2] if isinstance(place, tuple) else str(place or "")
    return text.removeprefix(_SKIPPED).strip() or "skipped without a reason"


def _cause(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    return next((line.strip() for line in text.splitlines() if line.strip()), "failed without a message")
