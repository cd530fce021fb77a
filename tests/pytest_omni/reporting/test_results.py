from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_omni.reporting.ledger import Kind, Result, State, Withheld
from pytest_omni.reporting.results import after

HARDWARE = Withheld(State.SKIPPED, "needs cuda, sees none", Kind.HARDWARE, owed=True)
CRASH = SimpleNamespace(reprcrash=SimpleNamespace(message="\nAssertionError: no\nassert 1 == 2"))


def report(when: str, outcome: str, longrepr: object = None, seconds: float = 0.0, **more: object):
    kinds = {name: name == outcome for name in ("passed", "failed", "skipped")}
    return SimpleNamespace(when=when, outcome=outcome, longrepr=longrepr, duration=seconds, **kinds, **more)


def went(*reports, withheld: Withheld | None = None) -> Result | None:
    result = None
    for one in reports:
        result = after(one, result, withheld)
    return result


SETUP, CALL, TEARDOWN = (report(when, "passed", seconds=1.0) for when in ("setup", "call", "teardown"))
SKIP = ("a.py", 3, "Skipped: later")


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([SETUP, CALL, TEARDOWN], Result(State.PASSED, None, None, 1.0, 1.0)),
        (
            [SETUP, report("call", "failed", CRASH, 2.0), TEARDOWN],
            Result(State.FAILED, "AssertionError: no", None, 1.0, 2.0),
        ),
        ([report("setup", "failed", CRASH), TEARDOWN], Result(State.ERROR, "AssertionError: no")),
        (
            [SETUP, CALL, report("teardown", "failed", CRASH)],
            Result(State.ERROR, "AssertionError: no", None, 1.0, 1.0),
        ),
        (
            [SETUP, report("call", "failed", "first"), report("teardown", "failed", CRASH)],
            Result(State.FAILED, "first", None, 1.0),
        ),
        ([report("setup", "skipped", SKIP), TEARDOWN], Result(State.SKIPPED, "later", Kind.USER)),
        ([SETUP, report("call", "skipped", SKIP), TEARDOWN], Result(State.SKIPPED, "later", Kind.USER, 1.0)),
        ([report("setup", "skipped", wasxfail="[NOTRUN] x")], Result(State.XFAILED, "[NOTRUN] x")),
        ([SETUP, report("call", "skipped", wasxfail="known")], Result(State.XFAILED, "known", None, 1.0)),
        ([SETUP, report("call", "passed", wasxfail="")], Result(State.XPASSED, None, None, 1.0)),
        # pytest-rerunfailures: what counts is the last run
        (
            [SETUP, report("call", "rerun", CRASH), TEARDOWN, SETUP, CALL, TEARDOWN],
            Result(State.PASSED, None, None, 1.0, 1.0),
        ),
        (
            [report("setup", "rerun", CRASH), TEARDOWN, SETUP, CALL],
            Result(State.PASSED, None, None, 1.0, 1.0),
        ),
        # a failed subtest is reported before its test, which may pass; a skipped one says nothing about the test
        (
            [SETUP, report("call", "failed", CRASH), report("call", "passed", seconds=3.0), TEARDOWN],
            Result(State.FAILED, "AssertionError: no", None, 1.0, 3.0),
        ),
        (
            [SETUP, report("call", "skipped", SKIP), CALL, TEARDOWN],
            Result(State.PASSED, None, None, 1.0, 1.0),
        ),
        # a worker of xdist died
        ([report("???", "failed", "worker 'gw0' crashed")], Result(State.FAILED, "worker 'gw0' crashed")),
        # the session ended in the middle
        ([SETUP], Result(State.NOT_RUN, "it was running when the session ended", None, 1.0)),
        ([SETUP, report("call", "failed", "")], Result(State.FAILED, "failed without a message", None, 1.0)),
    ],
)
def test_the_phases_of_a_test_add_up(reports, expected):
    assert went(*reports) == expected


def test_a_skip_that_was_decided_before_keeps_its_reason():
    assert went(report("setup", "skipped", SKIP), withheld=HARDWARE) == Result(
        State.SKIPPED, HARDWARE.because, Kind.HARDWARE
    )


def test_a_skip_by_the_test_itself_is_a_persons():
    deselected = Withheld(State.DESELECTED, "not selected", Kind.MARKS)
    assert went(report("setup", "skipped", ("a.py", 1, "Skipped")), withheld=deselected).kind is Kind.USER
    assert went(report("setup", "skipped", ("a.py", 1, "Skipped: "))).because == "skipped without a reason"
