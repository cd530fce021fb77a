"""One marked test: what its mark asks for, the process that runs it, and what each phase here makes of its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

import pytest

from omni_hardware.errors import InputError, OmniError, did_you_mean
from pytest_omni.isolation.fresh_process import MARK, TIMEOUT_S
from pytest_omni.session import notes_of

CHILD = "omni-fresh-child"  # the plugin that a fresh process has, and nobody else
_KEYS = ("method", "timeout")
_NO_DEBUGGER = f"--pdb and --trace do not reach {MARK} tests: take the mark off a test to debug it"


class Method(StrEnum):
    """How the process comes to be."""

    SPAWN = "spawn"
    FORK = "fork"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a mark asks for; timeout in seconds."""

    method: Method = Method.SPAWN
    timeout: float = TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a fresh process ended.

    how: "code 1", "signal SIGSEGV" or why it was ended. fine: pytest itself ended in order. reports: by phase, as
    pytest serialises them. parts: those of subtests. said: errors of its collection. log: the end of what it printed. seconds: from start to end.
    """

    how: str
    fine: bool
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parts: tuple[Mapping[str, Any], ...] = ()
    said: tuple[str, ...] = ()
    log: str = ""
    seconds: float = 0.0


class FreshRun:
    """Stands in for a test's own set-up, call and tear-down; a re-run starts another process."""

    def __init__(self, item: pytest.Item, mark: pytest.Mark) -> None:
        self._item = item
        self._mark = mark
        self._end: End | None = None
        self._told = False

    def setup(self) -> None:
        """Run the whole test in its process."""
        self._end, self._told, problem, began = None, False, "", time.monotonic()
        try:
            end = _started(self._item, spec_of(self._mark))
            self._end = replace(end, seconds=time.monotonic() - began)
        except OmniError as error:
            problem = str(error)
        if problem:  # outside the handler, or pytest prints it twice as cause and effect
            pytest.fail(problem, pytrace=False)
        self._expect("setup")

    def call(self) -> None:
        """Tell of the subtests, and fail where the process did not come to the end of its call."""
        for part in self._end.parts if self._end else ():
            self._item.ihook.pytest_runtest_logreport(report=self._restored(part))
        self._expect("call")

    def teardown(self) -> None:
        """Fail where the process did not come to its own end."""
        self._expect("teardown")

    def own_report(self, call: pytest.CallInfo[None], report: pytest.TestReport) -> pytest.TestReport:
        """Return what the process reported for this phase; *report* where something went wrong out here."""
        if call.excinfo is None:
            own = self._report(call.when)
            if own is not None and call.when == "setup":
                own.duration = self._until_call(own.duration)
            return own or report
        if self._told and self._end is not None:
            report.duration = self._end.seconds
        return report

    def _until_call(self, setup_s: float) -> float:
        """Return what the process took but for its call and teardown: its start is the dear part of it."""
        if self._end is None or not self._end.fine or "teardown" not in self._end.reports:
            return setup_s  # the phase that it did not come through has it all
        later = sum(
            float(row.get("duration", 0.0)) for when, row in self._end.reports.items() if when != "setup"
        )
        return max(setup_s, self._end.seconds - later)

    def _report(self, when: str) -> pytest.TestReport | None:
        if self._end is None or when not in self._end.reports:
            return None
        report = self._restored(self._end.reports[when])
        return report if isinstance(report, pytest.TestReport) else None

    def _restored(self, data: Mapping[str, Any]) -> Any:
        config = self._item.config
        return config.hook.pytest_report_from_serializable(config=config, data=as_pytest_has_it(data))

    def _expect(self, phase: str) -> None:
        end = self._end
        if end is None or self._told or (phase in end.reports and (end.fine or phase != "teardown")):
            return
        self._told = True
        pytest.fail(missing(end, phase), pytrace=False)


def take_over(item: pytest.Item, mark: pytest.Mark) -> FreshRun | None:
    """Let a fresh process do *item*'s work, unless this is that process."""
    asked = partial(item.config.getoption, default=False)  # the plugins behind these options can be blocked
    if item.config.pluginmanager.has_plugin(CHILD) or asked("setuponly") or asked("setupplan"):
        return None  # a plan runs nothing, so there is nothing to keep apart
    if (asked("usepdb") or asked("trace")) and _NO_DEBUGGER not in notes_of(item.config):
        notes_of(item.config).append(_NO_DEBUGGER)
    run = FreshRun(item, mark)
    # On the object, where pytest looks first; release() uncovers the item's own methods again.
    vars(item).update(setup=run.setup, runtest=run.call, teardown=run.teardown)
    return run


def release(item: pytest.Item) -> None:
    """Give *item* its own code back."""
    for name in ("setup", "runtest", "teardown"):
        vars(item).pop(name, None)


def spec_of(mark: pytest.Mark) -> Spec:
    """Return what *mark* asks for; InputError for anything it does not know."""
    if mark.args:
        raise InputError(f"{MARK} takes keywords only: {MARK}(method='fork', timeout=60)")
    if unknown := [key for key in mark.kwargs if key not in _KEYS]:
        raise InputError(f"{MARK}: unknown argument {unknown[0]!r}{did_you_mean(unknown[0], _KEYS)}")
    method, timeout = mark.kwargs.get("method", Method.SPAWN), mark.kwargs.get("timeout", TIMEOUT_S)
    if method not in tuple(Method):
        raise InputError(
            f"{MARK}: unknown method {method!r}{did_you_mean(str(method), [row.value for row in Method])}"
        )
    good = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < float("inf")
    if not good:
        raise InputError(f"{MARK}: timeout must be seconds above 0, not {timeout!r}")
    return Spec(Method(method), float(timeout))


def missing(end: End, phase: str) -> str:
    """Return the message for the first phase that the process did not report in order."""
    where = "after its last report" if phase in end.reports else f"before the end of its {phase}"
    parts = [f"the fresh process of this test ended {where}: {end.how}", *end.said]
    return "\n".join([*parts, f"the end of what it printed:\n{end.log}"] if end.log else parts)


def as_pytest_has_it(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report's data after its way through JSON, tuples where pytest's own code asks for tuples."""
    pairs = {key: [tuple(row) for row in data.get(key, ())] for key in ("sections", "user_properties")}
    skip = data.get("longrepr")
    return {
        **data,
        **pairs,
        "location": tuple(data["location"]),
        "longrepr": tuple(skip) if isinstance(skip, list) else skip,
    }


def _started(item: pytest.Item, spec: Spec) -> End:
    if spec.method is Method.FORK:
        from pytest_omni.isolation import fresh_fork

        return fresh_fork.run(item, timeout=spec.timeout)
    from pytest_omni.isolation import fresh_spawn

    return fresh_spawn.run(item, timeout=spec.timeout)
