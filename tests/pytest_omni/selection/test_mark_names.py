from __future__ import annotations

import pytest

from pytest_omni.selection.mark_names import named

SOURCE = """
import pytest
pytestmark = pytest.mark.module

class TestA:
    pytestmark = pytest.mark.inner

    @pytest.mark.own
    def test_marked(self): pass
    def test_plain(self): pass
    @pytest.mark.own
    def test_again(self): pass

def test_b(): pass

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.two)])
def test_c(n): pass
"""


def test_names_are_those_that_pytest_finds(pytester):
    items = pytester.getitems(SOURCE)
    pairs = list(named(items))
    assert [item for item, _ in pairs] == items
    assert [names for _, names in pairs] == [{mark.name for mark in item.iter_markers()} for item in items]


def test_equal_names_are_one_object_and_parents_are_read_once(pytester, monkeypatch):
    items = pytester.getitems("import pytest\n" + "\n".join(f"def test_{n}(): pass" for n in range(50)))
    asked: list[str] = []
    original = pytest.Module.iter_markers

    def counted(node, name=None):
        asked.append(node.name)
        return original(node, name)

    monkeypatch.setattr(pytest.Module, "iter_markers", counted)
    assert len({id(names) for _, names in named(items)}) == 1
    assert len(asked) == 1
