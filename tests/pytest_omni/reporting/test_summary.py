from __future__ import annotations

import pytest

from pytest_omni.reporting.ledger import Ledger, Result, State
from pytest_omni.reporting.outcome import Outcome
from pytest_omni.reporting.summary import TITLE, lines

GREEN = Outcome(0)


def texts(ledger: Ledger, outcome: Outcome = GREEN, *, verbose: bool = False) -> list[str]:
    return [line.text for line in lines(ledger, outcome, verbose=verbose)]


def book(count: int, state: str = "deselected", kind: str = "hardware") -> Ledger:
    ledger = Ledger()
    ledger.withhold_all([f"a.py::t{number}" for number in range(count)], state, "because", kind, owed=True)
    return ledger


def test_a_session_that_ran_everything_has_no_section():
    ledger = Ledger()
    ledger.results["a"] = Result(State.PASSED)
    assert texts(ledger) == []


@pytest.mark.parametrize(
    ("state", "kind", "shown"),
    [
        ("deselected", "marks", False),
        ("deselected", "user", False),
        ("other_shard", "shard", False),
        ("deselected", "hardware", True),
        ("deselected", "level", True),
        ("not_run", "user", True),
    ],
)
def test_what_a_person_asked_for_is_no_news_by_itself(state, kind, shown):
    assert bool(texts(book(1, state, kind))) == shown
    assert texts(book(1, state, kind), Outcome(5, ("nothing is left",)))[0].startswith("1 ")


def test_a_long_group_is_cut_unless_asked_for():
    assert texts(book(5)) == [
        "5 deselected (hardware): because",
        "  a.py::t0",
        "  a.py::t1",
        "  a.py::t2",
        "  … and 2 more (-v shows all)",
    ]
    assert len(texts(book(5), verbose=True)) == 6


def test_other_shards_are_one_line_however_many_there_are():
    ledger = Ledger()
    for number in range(1, 20):
        ledger.withhold(f"a.py::t{number}", "other_shard", f"runs in shard {number} of 20", "shard")
    assert texts(ledger, Outcome(0, ("this shard is empty",))) == [
        "19 in other shards (shard): other jobs run them",
        "this shard is empty",
    ]


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (("-q",), ["omni: devices H100×1", "omni: 2 skipped (hardware); without -q it says why"]),
        (
            ("-q", "--omni-strict"),
            ["omni: devices H100×1", "--omni-strict: 2 tests selected here cannot run *"],
        ),
        ((), ["2 skipped (hardware): needs cuda H100×2, sees H100 (devices from file inventory.json)"]),
    ],
    ids=["q", "strict", "loud"],
)
def test_a_quiet_session_has_one_line_unless_it_failed(armed, inner, cards, flags, shown):
    armed.makepyfile(
        """
        import pytest
        from pytest_omni import hardware_test

        def test_here(): pass
        @hardware_test(res={"cuda": "H100"}, num_cards=2)
        @pytest.mark.parametrize("x", [1, 2])
        def test_two(x): pass
        """
    )
    result = inner(*flags, *cards(1))
    result.stdout.fnmatch_lines([line.replace("H100×1", "H100 (from file inventory.json)") for line in shown])
    assert (TITLE in result.stdout.str()) == (flags != ("-q",))
    assert result.stdout.str().count("omni: devices H100") == ("-q" in flags)
    silent = inner("--no-summary", *flags, *cards(1)).stdout.str()
    assert (TITLE in silent, "2 skipped (hardware)" in silent) == (("--omni-strict" in flags),) * 2


def test_what_strict_mode_misses_is_listed_whole_and_in_red():
    ledger = book(5)
    ledger.withhold("b.py::t", "deselected", "made for rocm, not for cuda", "hardware")
    found = lines(ledger, Outcome(1, ("--omni-strict: 5 tests",), frozenset({"a.py::t0"})))
    assert [line.text for line in found if line.bad] == [
        "5 deselected (hardware): because",
        *(f"  a.py::t{number}" for number in range(5)),
        "--omni-strict: 5 tests",
    ]
    assert [line.text for line in found if not line.bad] == [
        "1 deselected (hardware): made for rocm, not for cuda",
        "  b.py::t",
    ]


def test_biggest_groups_first_skips_before_deselections():
    ledger = Ledger()
    ledger.withhold("a", "deselected", "x", "hardware")
    ledger.withhold_all(["b", "c"], "deselected", "y", "hardware")
    ledger.results["d"] = Result(State.SKIPPED, "z", None)
    heads = [text for text in texts(ledger) if not text.startswith(" ")]
    assert heads == ["1 skipped (session): z", "2 deselected (hardware): y", "1 deselected (hardware): x"]


def test_a_file_that_skips_itself_is_told():
    ledger = Ledger()
    ledger.skipped_files["a.py"] = "no such library"
    assert texts(ledger) == ["a.py skipped while it was collected (user): no such library"]


def test_no_control_character_reaches_the_terminal():
    ledger = Ledger()
    ledger.withhold("a\x1b[2J", "deselected", "b\x07", "hardware")
    assert texts(ledger) == ["1 deselected (hardware): b", "  a[2J"]
