from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_omni.reporting.bookkeeping import Bookkeeper
from pytest_omni.reporting.ledger import Kind, Ledger, Result, ServerRecord, State, ledger_of, merge, packed
from pytest_omni.selection import deselection

IDS = st.lists(st.text("abc/:@[]é", min_size=1, max_size=6), max_size=6)


def states(ledger: Ledger) -> dict[str, str]:
    return {nodeid: str(result.state) for nodeid, result in ledger.rows()}


def test_the_first_entry_stands():
    ledger = Ledger()
    ledger.withhold("a", "deselected", "made for rocm, not for cuda", "hardware")
    ledger.withhold("a", "deselected", "not selected by -m 'x'", "marks")
    assert ledger.withheld["a"].kind is Kind.HARDWARE


def test_a_skip_gives_way_to_another_shard():
    ledger = Ledger()
    ledger.withhold_all(["a", "b"], "skipped", "needs cuda H100×4, sees none", "hardware", owed=True)
    ledger.withhold("a", "other_shard", "runs in shard 1 of 2", "shard")
    ledger.withhold("a", "skipped", "late", "user")
    assert states(ledger) == {"a": "other_shard", "b": "not_run"}
    assert [nodeid for nodeid, entry in ledger.withheld.items() if entry.owed] == ["b"]


@pytest.mark.parametrize(("state", "kind"), [("gone", "user"), ("skipped", "whim")])
def test_only_the_words_of_the_report_can_be_entered(state, kind):
    with pytest.raises(ValueError, match=r"gone|whim"):
        Ledger().withhold("a", state, "because", kind)


def test_every_test_has_one_row_in_the_order_of_collection():
    ledger = Ledger()
    ledger.collected.update(dict.fromkeys(["c", "a", "b", "d"]))
    ledger.withhold("b", "other_shard", "shard 2 of 2", "shard")
    ledger.withhold("a", "skipped", "needs cuda, sees none", "hardware")
    ledger.results["d"] = Result(State.PASSED)
    assert states(ledger) == {"c": "not_run", "a": "not_run", "b": "other_shard", "d": "passed"}
    assert list(states(ledger)) == ["c", "a", "b", "d"]
    # a result is what happened, an entry only what was to happen
    ledger.results["a"] = Result(State.SKIPPED, "needs cuda, sees none", Kind.HARDWARE)
    assert states(ledger)["a"] == "skipped"


def test_a_test_that_came_from_elsewhere_has_a_row_too():
    ledger = Ledger()
    ledger.selected["a"] = None
    ledger.withhold("b", "deselected", "by somebody", "user")
    ledger.results["c"] = Result(State.FAILED)
    assert states(ledger) == {"b": "deselected", "a": "not_run", "c": "failed"}


def test_the_group_that_xdist_adds_to_an_id_is_taken_off_again():
    ledger = Ledger()
    ledger.collected.update(dict.fromkeys(["a[x@y]", "b"]))
    ledger.withhold("b@gpu", "skipped", "because", "hardware")
    assert [ledger.plain(name) for name in ("a[x@y]", "a[x@y]@gpu", "b@gpu", "c@gpu")] == [
        "a[x@y]",
        "a[x@y]",
        "b",
        "c@gpu",
    ]
    assert states(ledger) == {"a[x@y]": "not_run", "b": "not_run"}


@given(collected=IDS, deselected=IDS, skipped=IDS)
def test_a_book_arrives_as_it_was_sent(collected, deselected, skipped):
    ledger = Ledger()
    ledger.collected.update(dict.fromkeys(collected))
    ledger.withhold_all(deselected, "deselected", "another SKU", "hardware", owed=True)
    ledger.withhold_all(skipped, "skipped", "too few cards", "hardware", owed=True)
    ledger.weights = "tiny"
    ledger.servers.append(
        ServerRecord(
            "z", 1.5, alive_s=9.0, stopped="term", coverage="off", weights="tiny", because="core_model"
        )
    )
    sent = json.loads(json.dumps(packed(ledger, ids=True)))
    controller = Ledger()
    merge(controller, sent)
    merge(controller, {**sent, "servers": []})  # a second worker collected the same
    assert controller.withheld == ledger.withheld
    assert states(controller) == states(ledger)
    assert list(controller.collected) == list(ledger.collected)
    assert (controller.servers, controller.weights) == (ledger.servers, "tiny")


def test_a_worker_sends_ids_only_where_somebody_reads_them():
    ledger = Ledger()
    ledger.collected["a"] = None
    assert packed(ledger, ids=False)["collected"] == []


def test_a_test_that_xdist_renamed_was_not_dropped():
    config = SimpleNamespace(stash=pytest.Stash())
    ledger = ledger_of(config)
    ledger.collected.update(dict.fromkeys(["a.py::kept", "a.py::dropped"]))
    deselection.close(config, [SimpleNamespace(nodeid="a.py::kept@group")])
    assert list(ledger.withheld) == ["a.py::dropped"]


def test_a_test_that_somebody_renamed_is_one_test():
    ledger = Ledger()
    ledger.collected.update(dict.fromkeys(["a[\\xe9]", "b", "c"]))
    ledger.withhold("a[\\xe9]", "skipped", "needs cuda, sees none", "hardware")
    ledger.rename({"a[\\xe9]": "a[é]", "b": "b@group", "c": "c"})
    ledger.results["a[é]"] = Result(State.SKIPPED)
    assert states(ledger) == {"a[é]": "skipped", "b": "not_run", "c": "not_run"}
    assert list(ledger.withheld) == ["a[é]"]


def test_what_a_worker_selected_is_known_before_its_first_test():
    config = SimpleNamespace(stash=pytest.Stash())
    Bookkeeper(config).pytest_xdist_node_collection_finished(ids=["a.py::t"])
    assert states(ledger_of(config)) == {"a.py::t": "not_run"}
