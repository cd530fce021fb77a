"""Measures what each test and each shared fixture costs, apart from each other, in the process that runs them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any

import pytest

from pytest_omni.sharding.affinity import Affinities, nodeid_of
from pytest_omni.sharding.durations import Durations

_PHASES = 3


class Recorder:
    """A plugin for one session. Only what passed counts: a failure may come too early to tell anything."""

    def __init__(self, affinities: Affinities) -> None:
        self._affinities = affinities
        self._item: pytest.Item | None = None
        self._phases: list[pytest.TestReport] = []
        # seconds inside the current test that belong to fixtures shared with others
        self._shared_s = 0.0
        self._tests: dict[str, float] = {}
        self._fixtures: dict[str, float] = {}

    @property
    def measured(self) -> Durations:
        """Return what was measured so far."""
        return Durations(dict(self._tests), dict(self._fixtures))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Bill the time of *item* to it, once it is over."""
        self._item, self._phases, self._shared_s = item, [], 0.0
        result = yield
        if len(self._phases) == _PHASES and all(_passed(phase) for phase in self._phases):
            spent = sum(phase.duration for phase in self._phases)
            self._tests[nodeid_of(item)] = max(0.0, spent - self._shared_s)
        self._item = None
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the phases; a rerun begins anew, and what it shares was built before."""
        if type(report) is not pytest.TestReport:  # a subtest's, which is part of a phase
            return
        if report.when == "setup" and self._phases:
            self._phases, self._shared_s = [], 0.0
        self._phases.append(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Bill the time of a fixture that outlives the test to the fixture."""
        if fixturedef.scope == "function" or self._item is None:
            return (yield)
        instance = self._affinities.built(self._item, fixturedef)
        if instance is None:
            return (yield)
        bill = self._bill(instance.key)
        self._fixtures.pop(instance.key, None)
        stop: list[Callable[[], None]] = []
        # the finalizer that is added first runs last: between the two lies the tear-down
        request.addfinalizer(lambda: stop and stop.pop()())
        done = bill()
        try:
            result = yield
        except BaseException:
            self._fixtures.pop(instance.key, None)
            raise
        done()
        request.addfinalizer(lambda: stop.append(bill()))
        return result

    def _bill(self, key: str) -> Callable[[], Callable[[], None]]:
        """Return what starts a clock and returns what stops it; time of fixtures built inside is theirs."""

        def start() -> Callable[[], None]:
            began, inside = perf_counter(), self._shared_s

            def stop() -> None:
                own = perf_counter() - began - (self._shared_s - inside)
                self._shared_s += own
                self._fixtures[key] = self._fixtures.get(key, 0.0) + own

            return stop

        return start


def _passed(report: pytest.TestReport) -> bool:
    return report.outcome == "passed" and not hasattr(report, "wasxfail")
