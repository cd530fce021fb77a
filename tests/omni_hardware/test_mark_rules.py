from __future__ import annotations

import pytest

from omni_hardware.mark_rules import conflicts, hardware_words
from omni_hardware.requirements import build
from omni_hardware.vocabulary import DEFAULT

BOTH = build({"cuda": "H100", "rocm": "MI300"})
ONE = build({"cuda": "H100"}, num_cards=2)


@pytest.mark.parametrize(
    "names",
    [
        (),
        {"slow", "core_model", "mine"},
        {"cpu"},
        {"cpu", "slow"},
        {"cuda"},
        {"cuda", "gpu"},
        {"cuda", "rocm", "npu"},
        {"cuda", "H100", "cards_1", "gpu"},
        {"H100", "A100", "cards_2"},
        {"gpu", "cards_2"},
        {"npu", "cards_8"},
        {"any"},
    ],
    ids=lambda names: "+".join(sorted(names)) or "none",
)
def test_marks_by_hand_that_go_together(names):
    assert conflicts(names, None) == []


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({"cpu", "cuda"}, "cpu and cuda on one test: the first needs no device, the other does"),
        ({"cpu", "gpu"}, "cpu and gpu on one test: the first needs no device"),
        ({"cpu", "cards_1"}, "cpu and cards_1 on one test: the first needs no device"),
        ({"cpu", "cuda", "rocm"}, "cpu and cuda and rocm on one test"),
        (
            {"H100", "MI300", "cards_1"},
            "H100 (cuda) and MI300 (rocm) on one test: SKUs of different platforms",
        ),
        (
            {"H100", "rocm", "cards_1"},
            "H100 (cuda) beside rocm: hardware_test(res={...}) names each platform",
        ),
        (
            {"H100"},
            "H100 without a number of cards; add cards_1, or write hardware_test(res={'cuda': 'H100'})",
        ),
        ({"H100", "A100", "cuda"}, "A100 and H100 without a number of cards"),
        ({"cuda", "cards_2", "cards_1"}, "cards_1 and cards_2 on one test: keep one"),
        ({"cards_2"}, "cards_2 without a platform: say whose cards"),
    ],
)
def test_marks_by_hand_that_contradict_each_other(names, problem):
    (found,) = conflicts(names, None)
    assert found.startswith(problem)


def test_every_contradiction_is_told():
    assert len(conflicts({"cpu", "H100", "MI300", "cards_1", "cards_2"}, None)) == 3


@pytest.mark.parametrize("names", [{"H100"}, {"cards_2"}, {"H100", "gpu"}])
def test_where_there_may_be_more_marks_nothing_is_missing(names):
    assert conflicts(names, None, complete=False) == []


def test_where_there_may_be_more_marks_a_contradiction_stays_one():
    assert len(conflicts({"cpu", "H100", "cards_1", "cards_2"}, None, complete=False)) == 2


@pytest.mark.parametrize(
    ("requirement", "names"),
    [
        (ONE, {"cuda", "H100", "gpu", "cards_2"}),
        (BOTH, {"gpu", "cards_1", "slow"}),
        (build({"cpu": "any"}), {"cpu"}),
        (build({"cpu": "any", "cuda": "L4"}), {"slow"}),
    ],
)
def test_a_mark_that_the_requirement_gives_everywhere_may_stand_beside_it(requirement, names):
    assert conflicts(names, requirement) == []


@pytest.mark.parametrize(
    ("requirement", "name", "problem"),
    [
        (BOTH, "cuda", "cuda by hand would stay on the test on rocm, where"),
        (BOTH, "MI300", "MI300 by hand would stay on the test on cuda, where"),
        (BOTH, "cpu", "cpu by hand contradicts cuda H100 or rocm MI300, which the test requires"),
        (BOTH, "xpu", "xpu by hand contradicts cuda H100 or rocm MI300"),
        (BOTH, "cards_2", "cards_2 by hand contradicts cuda H100 or rocm MI300"),
        (ONE, "cards_1", "cards_1 by hand contradicts cuda H100×2"),
        (ONE, "A100", "A100 by hand contradicts cuda H100×2"),
        (build({"cpu": "any"}), "cuda", "cuda by hand contradicts cpu"),
        (build({"cpu": "any", "cuda": "L4"}), "gpu", "gpu by hand would stay on the test on cpu"),
        (build({"cpu": "any", "cuda": "L4"}), "cpu", "cpu by hand would stay on the test on cuda"),
    ],
)
def test_a_mark_that_would_leak_to_another_platform_is_refused(requirement, name, problem):
    (found,) = conflicts({name, "slow"}, requirement)
    assert found.startswith(problem)


def test_hardware_words_are_the_vocabularys_and_nothing_else():
    words = hardware_words()
    others = {*DEFAULT.levels, *DEFAULT.selection, *DEFAULT.topics}
    assert set(words) == set(DEFAULT.words()) - others
    assert len(words) == len(set(words))
