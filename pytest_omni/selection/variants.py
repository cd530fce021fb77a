"""One variant of a test for each platform that it names, where ``expand="platform"`` asks for it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from omni_hardware.errors import InputError
from pytest_omni.arming import arming_of
from pytest_omni.marks import IMPORTED, MARK, MARKER_LINE, declared_by, is_declared, mark_of, variant

ARGUMENT = "omni_platform_variant"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark that hardware_test writes."""
    config.addinivalue_line("markers", MARKER_LINE)
    for name in IMPORTED:  # strict markers would only say that it does not exist
        config.addinivalue_line("markers", f"{name}: not a marker; write `from pytest_omni import {name}`")
    config.pluginmanager.register(_Expansion(), "omni-expansion")


class _Expansion:
    """The hook that pytest calls for each test function; what stands above many of them is read once."""

    def __init__(self) -> None:
        self._parent: object = None
        self._expands = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each platform a variant, whose name comes before that of other parameters: test[cuda-1]."""
        definition = metafunc.definition
        if definition.parent is not self._parent:
            self._parent = definition.parent
            self._expands = _any_asks(definition.parent.iter_markers()) if definition.parent else False
        if self._expands or (definition.own_markers and _any_asks(definition.own_markers)):
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


def _any_asks(marks: Iterable[pytest.Mark]) -> bool:
    for mark in marks:  # any() would make a generator for each test
        if mark.name == MARK and is_declared(mark) and mark.args[0].arguments.get("expand") is not None:
            return True
    return False
