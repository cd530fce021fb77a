from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni.config.jsontext import DoubledKeyError, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(value=VALUES)
def test_json_is_read_as_python_reads_it(value):
    assert loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1 column 2"),
        ('{"a": {"b": 1, "b": 2}}', "key 'b' is given twice"),
        ("[" * 100_000, "nested deeper than can be read"),
        ("9" * 5000, "a number of 5000 digits"),
    ],
)
def test_every_refusal_is_one_value_error_in_words(text, says):
    with pytest.raises(ValueError, match=says):
        loads(text)


def test_the_doubled_key_is_found_in_one_pass():
    keys = [*range(60_000), 59_999]
    text = "{" + ",".join(f'"{key}":0' for key in keys) + "}"
    began = time.monotonic()
    with pytest.raises(DoubledKeyError) as doubled:
        loads(text)
    assert doubled.value.key == "59999"
    # A hang guard: comparing every key with every other takes half a minute.
    assert time.monotonic() - began < 5
