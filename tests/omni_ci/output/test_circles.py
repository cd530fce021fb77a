from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.output.circles import dependencies_first


@pytest.mark.parametrize(
    ("waits", "circles"),
    [
        ([], []),
        ([[], [], []], [[0], [1], [2]]),
        ([[2], [], [1]], [[1], [2], [0]]),
        ([[1], [0], []], [[0, 1], [2]]),
        ([[0]], [[0]]),
        ([[1, 3], [2], [0], [], [1]], [[3], [0, 1, 2], [4]]),
    ],
)
def test_what_waits_for_each_other_is_together(waits: list[list[int]], circles: list[list[int]]) -> None:
    assert dependencies_first(waits) == circles


def test_a_long_chain_needs_no_deep_stack() -> None:
    count = 20_000
    waits = [[at + 1] for at in range(count - 1)] + [[]]
    assert [circle[0] for circle in dependencies_first(waits)] == list(reversed(range(count)))


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 11), max_size=4), min_size=12, max_size=12))
def test_two_are_in_one_circle_exactly_if_each_reaches_the_other(waits: list[list[int]]) -> None:
    reached = [{at, *to} for at, to in enumerate(waits)]
    for _ in waits:
        reached = [{far for near in one for far in reached[near]} for one in reached]
    circles = dependencies_first(waits)
    number = {at: index for index, circle in enumerate(circles) for at in circle}
    assert sorted(number) == list(range(12))
    assert sum(map(len, circles)) == 12
    for one in range(12):
        for other in range(12):
            assert (number[one] == number[other]) == (other in reached[one] and one in reached[other])
            assert other not in reached[one] or number[other] <= number[one]
