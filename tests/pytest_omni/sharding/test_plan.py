"""Plans from plain values: what is a partition, what stays together, what a split costs."""

from __future__ import annotations

import gc
import random
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_omni.options import SHARD_METHODS
from pytest_omni.sharding import dividing
from pytest_omni.sharding.durations import Durations
from pytest_omni.sharding.estimates import UNKNOWN_SETUP_TESTS, UNKNOWN_TEST_S, seconds_of, setups_of
from pytest_omni.sharding.packing import TOLERANCE, cost, pack
from pytest_omni.sharding.plan import ALONE, METHODS, Plan, hash_shard, plan
from pytest_omni.sharding.suite import Case, Suite, components
from pytest_omni.sharding.table import SECONDS, UNITS, plan_lines, shard_lines

SECONDS_OF_A_TEST = st.floats(0, 1000, allow_nan=False)
NEEDS = ("server@a.py[x]", "server@a.py[y]", "server@b.py", "model@session[m]", "cheap@b.py")


@st.composite
def suites(draw: st.DrawFn) -> Suite:
    count = draw(st.integers(0, 30))
    cases = tuple(
        Case(
            id=f"tests/{draw(st.sampled_from('abc'))}.py::t{at}",
            seconds=draw(SECONDS_OF_A_TEST),
            needs=tuple(draw(st.sets(st.sampled_from(NEEDS), max_size=2))),
            together=tuple(draw(st.sets(st.sampled_from(("g", "h")), max_size=1))),
        )
        for at in range(count)
    )
    return Suite(cases, {need: draw(SECONDS_OF_A_TEST) for need in NEEDS})


SHARDS = st.integers(1, 7)
BY = st.sampled_from(SHARD_METHODS)


def server_suite(groups: int, tests: int, *, setup: float, call: float) -> Suite:
    cases = tuple(
        Case(id=f"tests/test_{group:02}.py::t{test}", seconds=call, needs=(f"server@{group:02}",))
        for group in range(groups)
        for test in range(tests)
    )
    return Suite(cases, {f"server@{group:02}": setup for group in range(groups)})


def assignment(found: Plan) -> dict[str, int]:
    return {
        found.suite.cases[at].id: number for number, shard in enumerate(found.shards) for at in shard.cases
    }


def starts(found: Plan) -> int:
    return sum(
        len({need for at in shard.cases for need in found.suite.cases[at].needs}) for shard in found.shards
    )


def wall(found: Plan) -> float:
    return max(shard.seconds for shard in found.shards)


def test_every_method_of_the_option_is_in_the_table() -> None:
    assert tuple(METHODS) == SHARD_METHODS


@given(suites(), SHARDS, BY)
def test_every_test_runs_in_exactly_one_shard_in_collection_order(suite: Suite, shards: int, by: str) -> None:
    found = plan(suite, shards, by)

    assert len(found.shards) == shards
    assert sorted(at for shard in found.shards for at in shard.cases) == list(range(len(suite.cases)))
    assert all(list(shard.cases) == sorted(shard.cases) for shard in found.shards)
    for shard in found.shards:
        assert sorted(at for part in shard.parts for at in part.cases) == list(shard.cases)


@given(suites(), SHARDS, BY, st.randoms(use_true_random=False))
def test_the_order_of_collection_does_not_change_the_plan(
    suite: Suite, shards: int, by: str, shuffler: random.Random
) -> None:
    cases = list(suite.cases)
    shuffler.shuffle(cases)
    shuffled = Suite(tuple(cases), dict(reversed(list(suite.setups.items()))))

    one, other = plan(suite, shards, by), plan(shuffled, shards, by)

    assert assignment(one) == assignment(other)
    assert one.digest == other.digest


@given(suites(), SHARDS)
def test_the_longest_shard_keeps_grahams_bound(suite: Suite, shards: int) -> None:
    whole = components(
        range(len(suite.cases)),
        lambda at: (*suite.cases[at].needs, *(("g", name) for name in suite.cases[at].together)),
    )
    assume(whole)
    weights = [suite.part(cases, "").seconds for cases in whole]

    found = plan(suite, shards)

    bound = sum(weights) / shards + (1 - 1 / shards) * max(weights)
    assert wall(found) <= bound * (1 + 1e-9) + 1e-9


@given(suites(), SHARDS)
def test_a_group_is_cut_only_where_it_is_too_long_and_that_is_worth_it(suite: Suite, shards: int) -> None:
    whole = components(
        range(len(suite.cases)),
        lambda at: (*suite.cases[at].needs, *(("g", name) for name in suite.cases[at].together)),
    )
    parts = [suite.part(cases, "") for cases in whole]
    limit = (1 + TOLERANCE) * sum(part.seconds for part in parts) / shards

    found = plan(suite, shards)

    where = assignment(found)
    for part in parts:
        if len({where[suite.cases[at].id] for at in part.cases}) > 1:
            assert part.seconds > limit
    kept = cost(suite, pack(suite, parts, shards))
    assert cost(suite, [shard.parts for shard in found.shards]) <= kept * (1 + 1e-9)


@given(suites(), SHARDS, st.sampled_from([by for by in SHARD_METHODS if by != "hash"]))
def test_an_xdist_group_is_never_cut(suite: Suite, shards: int, by: str) -> None:
    where = assignment(plan(suite, shards, by))

    for group in ("g", "h"):
        assert len({where[case.id] for case in suite.cases if group in case.together}) <= 1


def test_a_server_is_started_once_where_hashing_starts_it_in_every_shard() -> None:
    suite = server_suite(12, 4, setup=240, call=20)
    alone = suite.part(range(48), "").seconds

    ours, hashed = plan(suite, 4), plan(suite, 4, "hash")

    assert (starts(ours), ours.total / alone, wall(ours) / alone) == (12, 1.0, 0.25)
    assert starts(hashed) > 24
    assert hashed.total > 1.5 * alone


@pytest.mark.parametrize(
    ("setup", "call", "expected_starts"),
    [
        pytest.param(240, 20, 1, id="240 s again for 30 s less: kept"),
        pytest.param(10, 20, 4, id="10 s again for 140 s less: split in all four"),
        # wall times machine time: 1 → 220 * 220, 2 → 140 * 280, 3 → 120 * 340, 4 → 100 * 400
        pytest.param(60, 20, 2, id="60 s again: two pieces are the cheapest"),
        pytest.param(0, 20, 4, id="nothing to pay"),
    ],
)
def test_one_long_group_is_split_only_as_far_as_it_pays(
    setup: float, call: float, expected_starts: int
) -> None:
    found = plan(server_suite(1, 8, setup=setup, call=call), 4)

    assert starts(found) == expected_starts
    split = "split in" in found.shards[0].parts[0].because
    assert split == (expected_starts > 1)


def test_a_group_that_fits_is_not_split_however_cheap_its_set_up() -> None:
    found = plan(server_suite(4, 4, setup=0.001, call=1), 4)

    assert starts(found) == 4


def test_the_widest_fixture_is_given_up_first() -> None:
    cases = tuple(
        Case(id=f"t::{server}{at}", seconds=50, needs=("model@session", f"server@{server}"))
        for server in "ab"
        for at in range(4)
    )

    found = plan(Suite(cases, {"model@session": 10, "server@a": 100, "server@b": 100}), 2)

    assert [sorted({found.suite.cases[at].needs[1] for at in shard.cases}) for shard in found.shards] == [
        ["server@a"],
        ["server@b"],
    ]


def test_equal_tests_are_dealt_out_by_node_id() -> None:
    suite = Suite(tuple(Case(id=f"t::{name}", seconds=1) for name in "dbca"))

    assert assignment(plan(suite, 2)) == {"t::a": 0, "t::b": 1, "t::c": 0, "t::d": 1}


def test_hash_is_what_pytest_shard_chooses() -> None:
    theirs = pytest.importorskip("pytest_shard.pytest_shard")
    ids = [f"tests/t{at}.py::test_ü[{at}-a/b]" for at in range(200)]
    suite = Suite(tuple(Case(id=nodeid, seconds=1) for nodeid in ids))

    found = plan(suite, 5, "hash")

    for number, shard in enumerate(found.shards):
        chosen = theirs.filter_items_by_shard([SimpleNamespace(nodeid=nodeid) for nodeid in ids], number, 5)
        assert [ids[at] for at in shard.cases] == [item.nodeid for item in chosen]
    assert hash_shard("a.py::t", 1) == 0


def test_file_keeps_files_together() -> None:
    suite = Suite(tuple(Case(id=f"t/{file}.py::{at}", seconds=1) for at in range(3) for file in "abcd"))

    found = plan(suite, 2, "file")

    assert [sorted({suite.cases[at].file for at in shard.cases}) for shard in found.shards] == [
        ["t/a.py", "t/c.py"],
        ["t/b.py", "t/d.py"],
    ]


def test_a_different_selection_or_division_has_another_digest() -> None:
    suite = server_suite(4, 2, setup=1, call=1)
    fewer = Suite(suite.cases[1:], suite.setups)

    digests = {
        plan(suite, 2).digest,
        plan(suite, 3).digest,
        plan(fewer, 2).digest,
        plan(suite, 2, "hash").digest,
        plan(Suite(suite.cases, {**suite.setups, "server@00": 9}), 2).digest,
    }

    assert len(digests) == 5
    assert all(digest.startswith("sha256:") for digest in digests)


KNOWN = Durations(
    tests={
        "tests/a.py::slow": 30.0,
        "tests/a.py::slower": 50.0,
        "tests/a.py::fast": 1.0,
        "tests/models/b.py::one": 7.0,
        "unit/c.py::one": 0.5,
    },
    fixtures={"server@tests/a.py[x]": 200.0, "server@tests/a.py[y]": 300.0, "server@tests/b.py": 60.0},
)


@pytest.mark.parametrize(
    ("nodeid", "needs", "seconds"),
    [
        ("tests/a.py::slow", (), 30.0),
        pytest.param("tests/a.py::new", ("server@tests/a.py[x]",), 40.0, id="the median of its group"),
        pytest.param("tests/a.py::new", (), 30.0, id="the median of its file"),
        pytest.param("tests/models/new.py::t", (), 7.0, id="the median of its folder"),
        pytest.param("tests/new/deep/new.py::t", (), 18.5, id="of the nearest folder with any"),
        pytest.param("other/new.py::t", (), 7.0, id="of everything"),
    ],
)
def test_an_unknown_test_costs_what_its_neighbours_cost(
    nodeid: str, needs: tuple[str, ...], seconds: float
) -> None:
    ids = ["tests/a.py::slow", "tests/a.py::slower", nodeid]
    group = ("server@tests/a.py[x]",)

    assert seconds_of(ids, [group, group, needs], KNOWN)[2] == seconds


def test_without_any_measurement_tests_are_equal() -> None:
    assert seconds_of(["a.py::t", "b.py::t"], [(), ()], Durations()) == [UNKNOWN_TEST_S] * 2


@pytest.mark.parametrize(
    ("need", "seconds"),
    [
        ("server@tests/a.py[x]", 200.0),
        pytest.param("server@tests/a.py[new]", 250.0, id="the same fixture in the same file"),
        pytest.param("server@tests/new.py[new]", 200.0, id="the same fixture anywhere"),
        pytest.param("engine@tests/a.py", UNKNOWN_SETUP_TESTS * 3.0, id="tests' worth"),
    ],
)
def test_an_unknown_set_up_costs_what_its_kin_costs(need: str, seconds: float) -> None:
    assert setups_of([Case(id="t::a", seconds=3.0, needs=(need,))], KNOWN) == {need: seconds}


def test_the_table_says_who_runs_where_and_why() -> None:
    cases = (
        Case(id="tests/a.py::t1", seconds=20, needs=("omni_server@tests/a.py[z_image]",)),
        Case(id="tests/a.py::t2", seconds=20, needs=("omni_server@tests/a.py[z_image]",)),
        Case(id="tests/b.py::one", seconds=100, together=("pair",)),
        Case(id="tests/b.py::two", seconds=100, together=("pair",)),
        Case(id="tests/c.py::unit\x1b[31m", seconds=0.5),
        Case(id="tests/c.py::other", seconds=0.25),
    )
    found = plan(Suite(cases, {"omni_server@tests/a.py[z_image]": 240}), 2)
    digest = found.digest.removeprefix("sha256:")[:12]

    what = "6 tests on 2 shards (0 to 1), divided by what they share, the longest group first"
    assert plan_lines(found, SECONDS) == [
        f"shard plan: {what}; plan {digest}",
        "481 s in all; an even share is 240 s",
        "shard 0: 2 tests, 280 s, 1.16 of an even share",
        "  2 tests, 40 s + 240 s of set-up: omni_server@tests/a.py[z_image]",
        "shard 1: 4 tests, 201 s, 0.84 of an even share",
        "  2 tests, 200 s: xdist_group pair",
        f"  2 tests, 0.75 s: {ALONE}",
    ]
    assert shard_lines(found, 1, SECONDS) == [
        f"shard 1 of 2 (0 to 1) by group: 4 of 6 tests, 201 s of 481 s; plan {digest}"
    ]
    assert shard_lines(found, 1, UNITS)[1].startswith("nothing was measured yet")


@pytest.mark.parametrize("by", SHARD_METHODS)
def test_more_shards_than_tests_are_empty_and_quickly_planned(by: str) -> None:
    suite = server_suite(4, 6, setup=240, call=30)
    found = plan(suite, 100_000, by)  # a minute, if every one of them were looked at for every server
    assert len(found.shards) == 100_000
    assert sorted(at for shard in found.shards for at in shard.cases) == list(range(24))
    if by != "hash":
        assert not any(shard.cases for shard in found.shards[24:])


@pytest.mark.parametrize("was_on", [True, False])
def test_the_search_for_garbage_is_as_it_was_afterwards(was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    try:
        with dividing._no_search_for_garbage():
            assert not gc.isenabled()
        assert gc.isenabled() is was_on
    finally:
        gc.enable()
