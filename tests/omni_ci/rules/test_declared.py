"""The tests of a module and what they need, from its text alone."""

from __future__ import annotations

import pytest

from omni_ci.rules.declared import declared_tests, need_of, skipped
from omni_hardware.vocabulary import DEFAULT

TEXT = """\
import pytest
import torch
from pytest_omni import hardware_test
from elsewhere import other

pytestmark = pytest.mark.core_model

@hardware_test(res={"cuda": "H100", "rocm": "MI300"}, num_cards={"cuda": 2})
def test_declared(): pass

class TestGroup:
    @pytest.mark.cuda
    @pytest.mark.cards_2
    def test_by_hand(self): pass

    @other
    def test_unread(self): pass

@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_variants(x): pass

@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.device_count() < 4, reason="cards")
def test_skipif(): pass

def helper(): pass

class Helper:
    def test_nothing(self): pass
"""


@pytest.fixture
def tests():
    return {test.name: test for test in declared_tests(TEXT) or ()}


def test_every_test_is_found_and_nothing_else(tests):
    assert list(tests) == [
        "test_declared", "TestGroup::test_by_hand", "TestGroup::test_unread", "test_variants", "test_skipif",
    ]  # fmt: skip
    assert tests["test_declared"].line == 9


def test_marks_are_those_of_the_platform_that_is_asked_for(tests):
    (one,) = tests["test_declared"].variants
    assert one.marks("cuda", DEFAULT) == {"core_model", "cuda", "H100", "gpu", "cards_2"}
    assert one.marks("rocm", DEFAULT) == {"core_model", "rocm", "MI300", "gpu", "cards_1"}
    assert one.marks("npu", DEFAULT) == one.marks(None, DEFAULT) == {"core_model"}


def test_each_variant_has_its_own_marks_and_an_unread_one_is_not_exact(tests):
    assert [sorted(one.names) for one in tests["test_variants"].variants] == [
        ["core_model"],
        ["core_model", "slow"],
    ]
    assert [one.is_exact for one in tests["TestGroup::test_unread"].variants] == [False]


def test_a_need_is_told_by_the_declaration_or_by_the_marks(tests):
    (declared,) = tests["test_declared"].variants
    assert str(need_of(declared, "cuda", DEFAULT)) == "cuda H100×2"
    assert need_of(declared, "npu", DEFAULT) is None
    (by_hand,) = tests["TestGroup::test_by_hand"].variants
    assert str(need_of(by_hand, "cuda", DEFAULT)) == "cuda×2"


@pytest.mark.parametrize(
    ("name", "sku", "cards", "because"),
    [
        ("test_declared", "H100", 2, None),
        ("test_declared", None, 2, None),
        ("test_declared", "H100", 1, "needs cuda H100×2"),
        ("test_declared", "L4", 2, "needs cuda H100×2"),
        ("test_skipif", "L4", 2, "needs 4 cards"),
        ("test_skipif", "L4", 4, None),
        ("test_variants", "L4", 1, None),
    ],
)
def test_a_test_is_skipped_where_cards_or_device_do_not_do(tests, name, sku, cards, because):
    test = tests[name]
    found = skipped(test, test.variants[0], platform="cuda", sku=sku, cards=cards, vocabulary=DEFAULT)
    assert (found and found.because) == because


def test_text_that_is_no_python_has_no_tests():
    assert declared_tests("def test_a(:") is None
