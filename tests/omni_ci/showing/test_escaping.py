from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_ci.showing.escaping import cut, html_cell, markdown_cell, one_line, without_emoji


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (":card_index_dividers: Diffusion Test", "Diffusion Test"),
        (":+1: a :rocket: b", "a b"),
        (":rocket:", ":rocket:"),
        ("a:b:c", "a:b:c"),
        ("", ""),
    ],
)
def test_emoji_codes_are_for_buildkite(text: str, bare: str) -> None:
    assert without_emoji(text) == bare


def test_a_long_text_is_cut() -> None:
    assert cut("x" * 500) == "x" * 399 + "…"
    assert cut("a\nb\u2028c\x1b[31m") == "a b c[31m"


@given(st.text())
def test_no_text_leaves_its_cell(text: str) -> None:
    for escaped in (html_cell(text), markdown_cell(text)):
        assert not set("<>\n\r\u2028\x85\x0b\x0c") & set(escaped)
        escaped.encode("utf-8")
    assert not set("|`\"'") & set(html_cell(text))
    assert "\n" not in one_line(text)
