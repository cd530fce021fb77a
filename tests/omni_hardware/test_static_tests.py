from __future__ import annotations

import ast

from omni_hardware.static_tests import Declarations, variants

TEXT = """\
import pytest
from pytest_omni import hardware_test

pytestmark = [pytest.mark.core_model]

@pytest.mark.cuda
class Base:
    pass

class TestA(Base):
    pytestmark = pytest.mark.slow

    @hardware_test(res={"cuda": "H100", "rocm": "any"}, expand="platform")
    def test_a(self): pass

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.H100), 2])
@pytest.mark.parametrize("y", [3, 4])
async def test_b(x, y): pass

@hardware_test(res=RES)
def test_c(): pass
"""
DECLARED = Declarations(ast.parse(TEXT))
BY_NAME = {one.name: one for one in DECLARED.walk()}


def test_classes_and_functions_come_in_the_order_of_the_file():
    assert list(BY_NAME) == ["Base", "TestA", "TestA::test_a", "test_b", "test_c"]


def test_a_test_has_the_marks_of_module_bases_and_class():
    names = [sorted(word.name for word in marks.words) for marks in BY_NAME["TestA::test_a"].levels]
    assert names == [["core_model"], ["cuda", "slow"], []]


def test_each_combination_of_parameters_is_a_variant():
    found = [sorted(one.names) for one in variants(BY_NAME["test_b"].levels)]
    assert found == [["H100", "core_model"], ["core_model"]]


def test_an_expanded_declaration_is_a_requirement_a_platform_and_an_unread_one_is_none():
    (variant,) = variants(BY_NAME["TestA::test_a"].levels)
    assert list(map(str, DECLARED.requirements(variant.calls))) == ["cuda H100", "rocm"]
    assert DECLARED.requirements(()) == [None]
    (open_one,) = variants(BY_NAME["test_c"].levels)
    assert DECLARED.requirements(open_one.calls) == []
