from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_ci.runner.outcome import Outcome, Stopped, aggregate, judge
from omni_ci.runner.records import Kind, Record, parse

STATUSES = st.lists(st.one_of(st.none(), st.integers(0, 255)))


def record(kind: Kind, item: int, status: int = 0, text: str = "", time: float = 0.0) -> Record:
    return Record(kind=kind, item=item, status=status, time=time, text=text)


@given(STATUSES)
def test_the_code_is_the_first_real_failure_and_0_only_where_nothing_failed(statuses):
    code = aggregate(statuses)
    real = [status for status in statuses if status not in {None, 0, 5}]
    assert code == (real[0] if real else 5 if 5 in statuses else 0)
    assert (code == 0) == all(status in {None, 0} for status in statuses)


@pytest.mark.parametrize(("shell", "status"), [(7, 7), (-9, 137), (-15, 143), (255, 255)])
def test_an_item_without_an_end_has_the_shells_status(shell, status):
    outcome = judge(["a", "b"], [record(Kind.BEGIN, 1)], shell=shell)
    assert [item.status for item in outcome.items] == [status, None]
    assert outcome.status == status


def test_the_time_of_an_item_that_never_ended_is_that_to_the_shells_end():
    records = [
        record(Kind.BEGIN, 1, time=100.0),
        record(Kind.END, 1, time=101.0),
        record(Kind.BEGIN, 2, time=101.0),
    ]
    outcome = judge(["a", "b"], records, shell=-9, seconds=5.0)
    assert [item.seconds for item in outcome.items] == [1.0, 4.0]


def test_a_clock_that_an_item_set_back_is_no_negative_time():
    records = [record(Kind.BEGIN, 1, time=100.0), record(Kind.END, 1, time=0.0)]
    assert judge(["a"], records, shell=0).items[0].seconds == 0.0


def test_a_stop_is_the_status_of_the_item_it_met_but_an_earlier_failure_is_the_code():
    stopped = Stopped(status=124, because="not done after 1 s")
    begun = [record(Kind.BEGIN, 1), record(Kind.END, 1, 3), record(Kind.BEGIN, 2)]
    outcome = judge(["a", "b", "c"], begun, shell=-15, stopped=stopped)
    assert [item.status for item in outcome.items] == [3, 124, None]
    assert outcome.items[1].note == "not done after 1 s"
    assert outcome.status == 3


def test_a_stop_beats_an_item_without_tests():
    begun = [record(Kind.BEGIN, 1), record(Kind.END, 1, 5)]
    outcome = judge(["a", "b"], begun, shell=-15, stopped=Stopped(status=124, because="not done after 1 s"))
    assert (outcome.status, outcome.allowing_no_tests().status) == (124, 124)


def test_a_stop_between_two_items_is_no_success():
    stopped = Stopped(status=143, because="ended because of SIGTERM")
    begun = [record(Kind.BEGIN, 1), record(Kind.END, 1)]
    assert judge(["a", "b"], begun, shell=-15, stopped=stopped).status == 143


BEGUN, ENDED = record(Kind.BEGIN, 1), record(Kind.END, 1)


@pytest.mark.parametrize(
    "records",
    [[], [ENDED], [BEGUN, ENDED], [BEGUN, record(Kind.BEGIN, 2), record(Kind.END, 2)]],
    ids=["nothing", "no begin", "between two items", "no end"],
)
@pytest.mark.parametrize(("shell", "status"), [(0, 1), (3, 3)])
def test_records_that_are_missing_are_no_success(records, shell, status):
    outcome = judge(["a", "b"], records, shell=shell)
    assert outcome.status == status
    assert "incomplete" in outcome.notes[0]


def test_allowing_no_tests_forgives_5_alone():
    assert Outcome(items=(), status=5).allowing_no_tests().status == 0
    assert Outcome(items=(), status=2).allowing_no_tests().status == 2


def test_records_are_read_as_they_were_written_and_a_torn_one_is_left_out():
    whole = b"begin\x001\x000\x001796079600,5\x00/a b\nc\x00"
    (found,) = parse(whole + b"end\x001\x00")
    assert (found.kind, found.item, found.time, found.text) == (Kind.BEGIN, 1, 1796079600.5, "/a b\nc")
    assert parse(b"") == ()


@given(st.binary())
def test_a_torn_record_never_stops_the_report(written):
    whole = b"begin\x001\x000\x001\x00/a\x00"
    for cut in range(len(whole)):
        assert parse(whole[:cut]) == ()
    assert parse(whole + written)[0].text == "/a"
