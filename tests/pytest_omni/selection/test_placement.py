from __future__ import annotations

import pytest

from omni_hardware.project import extend
from omni_hardware.requirements import build
from omni_hardware.vocabulary import DEFAULT
from pytest_omni.selection.placement import Planner


def plan(asked: str, *, res=None, names=(), cards=1, vocabulary=DEFAULT):
    requirement = build(res, num_cards=cards, vocabulary=vocabulary) if res else None
    return Planner(asked, vocabulary).plan(names, requirement)


def words(found) -> list[str]:
    return [mark.name for mark in found.marks]


@pytest.mark.parametrize(
    ("asked", "res", "names", "need", "marks"),
    [
        ("cuda", {"cuda": "H100"}, (), "cuda H100", ["cuda", "H100", "gpu", "cards_1"]),
        ("cuda", {"cuda": ["H100", "L4"]}, (), "cuda (H100 or L4)", ["cuda", "H100", "L4", "gpu", "cards_1"]),
        ("npu", {"npu": "A2"}, (), "npu A2", ["npu", "A2", "cards_1"]),
        ("cpu", {"cpu": "any", "cuda": "L4"}, (), "cpu", ["cpu"]),
        ("cuda", {"cpu": "any", "cuda": "L4"}, (), "cuda L4", ["cuda", "L4", "gpu", "cards_1"]),
        # a test that only ever needs a cpu keeps its mark everywhere
        ("cuda", {"cpu": "any"}, (), "cpu", ["cpu"]),
        ("cuda", None, ("cpu",), "cpu", []),
        # by hand: what is there already is not put on again
        ("cuda", None, ("cuda",), "cuda", ["gpu", "cards_1"]),
        ("cuda", None, ("cuda", "L4", "cards_2"), "cuda L4×2", ["gpu"]),
    ],
)
def test_a_test_gets_the_need_and_the_marks_of_the_asked_platform(asked, res, names, need, marks):
    found = plan(asked, res=res, names=names)
    assert str(found.need) == need
    assert words(found) == marks
    assert list(found.keywords) == marks
    assert not found.elsewhere


@pytest.mark.parametrize(
    ("asked", "res", "names", "because"),
    [
        ("npu", {"cuda": "H100"}, (), "made for cuda, not for npu"),
        (
            "npu",
            {"cuda": "H100", "rocm": "MI300", "xpu": "B60"},
            (),
            "made for cuda, rocm and xpu, not for npu",
        ),
        ("cpu", None, ("cuda",), "made for cuda, not for cpu"),
    ],
)
def test_a_test_of_other_platforms_says_whose_it_is(asked, res, names, because):
    found = plan(asked, res=res, names=names)
    assert (found.elsewhere, found.need, found.marks) == (because, None, ())


def test_a_test_without_a_word_about_hardware_runs_anywhere():
    found = plan("cuda")
    assert (found.requirement, found.need, found.marks, found.elsewhere, found.problems) == (
        None,
        None,
        (),
        "",
        (),
    )


def test_contradictions_end_in_problems_and_no_marks():
    found = plan("cuda", names=("cpu", "cuda"))
    assert len(found.problems) == 1
    assert found.marks == ()


def test_equal_marks_are_judged_once():
    planner = Planner("cuda", DEFAULT)
    first = planner.plan(("cuda",), build({"cuda": "H100"}))
    assert planner.plan({"cuda"}, build({"cuda": "H100"})) is first


def test_a_lane_that_runs_another_platforms_tests_asks_for_its_own_devices():
    import dataclasses

    vocabulary = extend({}, source="test")
    rows = tuple(
        dataclasses.replace(row, runs_items_of=("cuda",)) if row.name == "rocm" else row
        for row in vocabulary.platforms
    )
    lane = dataclasses.replace(vocabulary, platforms=rows)
    found = plan("rocm", res={"cuda": "H100"}, cards=2, vocabulary=lane)
    assert str(found.need) == "rocm×2"
    assert words(found) == ["rocm", "cuda", "gpu", "cards_2"]
