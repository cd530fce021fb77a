"""One variant of a test for each platform that it names, where ``expand="platform"`` asks for it."""

from __future__ import annotations

import pytest

from omni_hardware.errors import InputError
from pytest_omni.arming import arming_of
from pytest_omni.marks import MARK, MARKER_LINE, declared_by, is_declared, mark_of, variant

ARGUMENT = "omni_platform_variant"
_EXPANDS = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark that hardware_test writes."""
    config.addinivalue_line("markers", MARKER_LINE)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each platform a variant, whose name comes before that of other parameters: test[cuda-1]."""
    if _may_expand(metafunc.definition):
        _expand(metafunc)


def _expand(metafunc: pytest.Metafunc) -> None:
    mark = mark_of(metafunc.definition)
    try:
        platforms = declared_by(mark).platforms(arming_of(metafunc.config).vocabulary) if mark else ()
    except InputError:
        return  # told with all the others, once everything is collected
    if mark and platforms:
        metafunc.fixturenames.append(ARGUMENT)  # nobody has to take it as an argument
        variants = [pytest.param(name, marks=variant(declared_by(mark), name), id=name) for name in platforms]
        metafunc.parametrize(ARGUMENT, variants)


def _may_expand(node: pytest.Item | pytest.Collector) -> bool:
    """Return whether a mark on *node* or above it asks for variants; a suite of 20,000 asks each parent once."""
    if node.own_markers and any([_asks(mark) for mark in node.own_markers]):  # noqa: C419 a generator costs more
        return True
    parent = node.parent
    if parent is None:
        return False
    known = parent.stash.get(_EXPANDS, None)
    if known is None:
        known = parent.stash[_EXPANDS] = _may_expand(parent)
    return known


def _asks(mark: pytest.Mark) -> bool:
    return mark.name == MARK and is_declared(mark) and mark.args[0].arguments.get("expand") is not None
