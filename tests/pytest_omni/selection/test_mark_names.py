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


@pytest.fixture
def items(pytester):
    pytester.makeini("[pytest]\nmarkers =\n module\n inner\n own\n two\n")
    found = pytester.getitems(SOURCE)
    assert len(found) == 6
    return found


def test_names_are_those_that_pytest_finds(items):
    pairs = [(item, names) for group, names in named(items) for item in group]
    assert [item for item, _ in pairs] == items
    assert [names for _, names in pairs] == [{mark.name for mark in item.iter_markers()} for item in items]


def test_siblings_come_together_and_their_parents_are_read_once(pytester, monkeypatch):
    items = pytester.getitems("import pytest\n" + "\n".join(f"def test_{n}(): pass" for n in range(50)))
    asked: list[str] = []
    original = pytest.Module.iter_markers

    def counted(node, name=None):
        asked.append(node.name)
        return original(node, name)

    monkeypatch.setattr(pytest.Module, "iter_markers", counted)
    assert [group for group, _ in named(items)] == [items]
    assert len(asked) == 1


def test_equal_names_are_one_object(items):
    found = [names for _, names in named(items)]
    assert len({id(names) for names in found}) == len(set(found)) < len(found)
