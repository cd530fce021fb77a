from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_hardware.errors import (
    CheckError,
    InfrastructureError,
    InputError,
    OmniError,
    did_you_mean,
    nearest,
    strip_controls,
)

SKUS = ("L4", "H100", "H200", "MI300")


@pytest.mark.parametrize(
    ("kind", "code"), [(OmniError, 2), (InputError, 2), (CheckError, 3), (InfrastructureError, 4)]
)
def test_each_kind_has_its_exit_code(kind, code):
    assert kind.exit_code == code
    assert issubclass(kind, OmniError)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("H1000", "H100"), ("h100", "H100"), ("mi300x", "MI300"), ("toaster", None), ("", None)],
)
def test_nearest(name, expected):
    assert nearest(name, SKUS) == expected


def test_did_you_mean_names_one_or_lists_what_is_known():
    assert did_you_mean("H10", SKUS) == " (did you mean 'H100'?)"
    assert did_you_mean("toaster", SKUS) == " (known: L4, H100, H200, MI300)"
    assert did_you_mean("x", ()) == ""
    assert did_you_mean("zzz", [f"name{i}" for i in range(40)]).endswith("name11, …)")


@settings(max_examples=50)
@given(st.text(), st.lists(st.text(min_size=1), max_size=6))
def test_nearest_only_answers_with_a_valid_name(name, valid):
    assert nearest(name, valid) in {None, *valid}
    for exact in valid:
        assert nearest(exact, valid).lower() == exact.lower()


@settings(max_examples=50)
@given(st.text())
def test_strip_controls_leaves_no_escape(text):
    stripped = strip_controls(text)
    assert not any(ord(c) < 32 and c not in "\t\n" for c in stripped)
    assert "\x7f" not in stripped
    assert strip_controls(stripped) == stripped


def test_strip_controls_keeps_words_and_lines():
    assert strip_controls("\x1b[31mré\td\x1b[0m\r\nnext") == "[31mré\td[0m\nnext"


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_characters_that_turn_the_direction_do_not_reach_a_terminal(code):
    assert strip_controls(f"a{chr(code)}b") == "ab"


def test_what_is_known_is_listed_alike_every_time():
    names = [f"name{chr(97 + i)}" for i in range(12)]
    assert did_you_mean("zzz", set(names)) == f" (known: {', '.join(names)})"
    # an order that was chosen stays
    assert did_you_mean("zzz", ["b", "a"]) == " (known: b, a)"
