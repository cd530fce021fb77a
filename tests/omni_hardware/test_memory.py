from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from omni_hardware.memory import parse_memory, shown_memory


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("40GiB", 40960),
        ("40 GiB", 40960),
        (" 40GiB ", 40960),
        ("1.5GiB", 1536),
        ("0.1GiB", 103),  # rounded up: less than asked for is not enough
        ("512MiB", 512),
        ("1TiB", 1048576),
        ("80GB", 76294),
        ("1MB", 1),
    ],
)
def test_sizes_in_mib(text, mib):
    assert parse_memory(text) == mib


def test_a_card_sold_as_80_gb_has_80_gb_and_no_80_gib():
    h100 = 81559
    assert parse_memory("80GB") <= h100 < parse_memory("80GiB")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("40", "'40' is no size of memory: it has no unit; write it as \"40GiB\""),
        (
            "40gib",
            "'40gib' is no size of memory: unknown unit 'gib' (did you mean 'GiB'?); write it as \"40GiB\"",
        ),
        (
            "40Gi",
            "'40Gi' is no size of memory: unknown unit 'Gi' (did you mean 'GiB'?); write it as \"40GiB\"",
        ),
        ("GiB", "'GiB' is no size of memory; write it as \"40GiB\""),
        ("-1GiB", "'-1GiB' is no size of memory; write it as \"40GiB\""),
        ("1e3MiB", "'1e3MiB' is no size of memory; write it as \"40GiB\""),
        ("٤٠GiB", "'٤٠GiB' is no size of memory; write it as \"40GiB\""),
        ("", "'' is no size of memory; write it as \"40GiB\""),
        (40, '40 is no size of memory; write it as "40GiB"'),
        (True, 'True is no size of memory; write it as "40GiB"'),
        (None, 'None is no size of memory; write it as "40GiB"'),
        ("0GiB", "'0GiB' asks for no memory at all; leave it out"),
    ],
)
def test_anything_else_says_how_to_write_it(text, message):
    with pytest.raises(InputError) as caught:
        parse_memory(text)
    assert str(caught.value) == message


@given(st.integers(1, 10**9))
def test_a_size_is_shown_as_it_can_be_read_back(mib):
    assert parse_memory(shown_memory(mib)) == mib
