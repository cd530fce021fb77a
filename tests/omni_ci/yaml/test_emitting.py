from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.reading import read

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.text("aé1_-.:#?|>{}[]&*!%@`'\"\\ \n\t\x85\ufeff😀$=~,", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
@example({"\x85": "a\u2028b\nc"})
@settings(max_examples=300)
def test_yaml_1_1_reads_back_what_was_written(value: object) -> None:
    assert yaml.safe_load(to_yaml({"value": value})) == {"value": value}


@pytest.mark.parametrize(
    "text",
    ["12e4567", "1e3", "0o14", "0x1F", "1_000", "1:30", "on", "yes", "null", "~", "", ".5", "1.10", "007"],
)
def test_text_stays_text_in_yaml_1_2_too(text: str) -> None:
    assert read(to_yaml({"env": {"A": text}}), "x.yml") == ({"env": {"A": text}}, [])


@given(
    st.dictionaries(st.text("a:#' -?yn\n", min_size=1, max_size=6), st.text("aé: #'\"\n\\-$", max_size=10))
)
@settings(max_examples=300)
def test_both_readers_find_the_same_text(value: dict[str, str]) -> None:
    assert read(to_yaml({"env": value}), "x.yml") == ({"env": value}, [])


def test_shared_values_are_written_out() -> None:
    shared = {"queue": "l4"}
    text = to_yaml({"a": shared, "b": shared})
    assert not re.search(r"[&*]id\d", text)
    assert text.count("queue: l4") == 2


def test_a_script_stays_readable() -> None:
    assert to_yaml({"commands": ["set -e\npytest\n"]}) == "commands:\n  - |\n    set -e\n    pytest\n"


def test_order_is_kept_and_characters_are_as_they_are() -> None:
    assert to_yaml({"b": "Ünit · 😀", "a": 1}) == "b: Ünit · 😀\na: 1\n"
