"""More jobs than Buildkite takes at once, in uploads that are each valid by themselves."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.output.splitting import split
from omni_ci.rendering.steps import Rendered
from omni_hardware.errors import InputError


def step(key: str, *depends_on: str, **more: Any) -> dict[str, Any]:
    waits = {"depends_on": list(depends_on)} if depends_on else {}
    return {"label": key, "key": key, "command": "make", **waits, **more}


def rendered(*steps: Any, **top: Any) -> Rendered:
    paths = [(index,) for index in range(len(steps))]
    paths += [
        (index, inner)
        for index, item in enumerate(steps)
        if isinstance(item, dict)
        for inner in range(len(item.get("steps", ())))
    ]
    return Rendered(
        document={**top, "steps": list(steps)},
        origins={path: f"p.yml:{path}" for path in paths},
        presets={path: "l4_1" for path in paths if len(path) == 2},
    )


def keys(parts: tuple[Rendered, ...]) -> list[list[str]]:
    return [[item.get("key") or item["group"] for item in part.document["steps"]] for part in parts]


def test_what_fits_stays_as_it_is() -> None:
    whole = rendered(step("a"), "wait", step("b"))
    assert split(whole, most=3) == (whole,)


def test_parts_keep_the_order_and_say_notify_once() -> None:
    parts = split(rendered(*map(step, "abcde"), env={"A": "b"}, notify=[{"slack": "#x"}]), most=2)
    assert keys(parts) == [["a", "b"], ["c", "d"], ["e"]]
    assert [part.document.get("notify") for part in parts] == [[{"slack": "#x"}], None, None]
    assert all(part.document["env"] == {"A": "b"} for part in parts)
    assert [part.origins for part in parts[1:]] == [
        {(0,): "p.yml:(2,)", (1,): "p.yml:(3,)"}, {(0,): "p.yml:(4,)"},
    ]  # fmt: skip


def test_nothing_waits_for_a_later_upload() -> None:
    parts = split(rendered(step("a", "d"), step("b"), step("c"), step("d", "c")), most=2)
    assert keys(parts) == [["c", "d"], ["a", "b"]]


def test_steps_that_wait_for_each_other_end() -> None:
    parts = split(rendered(step("a", "b"), step("b", "a"), step("c")), most=2)
    assert sorted(chain.from_iterable(keys(parts))) == [
        "a",
        "b",
        "c",
    ]


def test_a_group_stays_whole_or_goes_on_under_its_title() -> None:
    small = {"group": "small", "key": "small", "steps": [step("s1"), step("s2")]}
    large = {"group": "large", "if": "true", "steps": [step(f"l{index}") for index in range(5)]}
    parts = split(rendered(step("a"), small, large), most=2)
    assert keys(parts) == [["a"], ["small"], ["large"], ["large"], ["large"]]
    assert [[one["key"] for one in part.document["steps"][0].get("steps", ())] for part in parts[2:]] == [
        ["l0", "l1"], ["l2", "l3"], ["l4"],
    ]  # fmt: skip
    assert all(part.document["steps"][0]["if"] == "true" for part in parts[2:])
    assert parts[3].origins == {(0,): "p.yml:(2,)", (0, 0): "p.yml:(2, 2)", (0, 1): "p.yml:(2, 3)"}
    assert parts[3].presets == {(0, 0): "l4_1", (0, 1): "l4_1"}


def test_ray62736_jobs_are_counted_and_not_steps() -> None:
    """The limit is one of jobs: a few steps with many shards were refused although they were few."""
    parts = split(rendered(step("a", parallelism=3), step("b", matrix=["x", "y"]), step("c")), most=4)
    assert keys(parts) == [["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((step("a"), "wait", step("b"), step("c")), "steps[1]"),
        ((step("a"), {"block": "Go?"}, step("b")), "orders steps by their place; use depends_on"),
        ((step("a", parallelism=3),), "'a' makes 3 jobs, and Buildkite takes 2 an upload"),
        (
            ({"group": "g", "key": "g", "steps": [step(key) for key in "abc"]},),
            "its key cannot stand for both halves",
        ),
        (({"group": "g", "steps": [step("a"), "wait", step("b")]},), "a gate in it orders steps by place"),
        (({"group": "g", "steps": [step("a", parallelism=3)]},), "'a' makes 3 jobs"),
    ],
)
def test_what_several_uploads_cannot_keep_is_refused(steps: tuple[Any, ...], message: str) -> None:
    made = rendered(*steps)
    with pytest.raises(InputError) as caught:
        split(
            made if "steps[1]" not in message else Rendered(document=made.document, origins={}, presets={}),
            most=2,
        )
    assert message in str(caught.value)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 29), max_size=3)), min_size=1, max_size=30),
    st.integers(4, 9),
)
def test_every_step_is_in_one_part_and_waits_for_none_that_comes_later(
    steps: list[tuple[int, list[int]]], most: int
) -> None:
    made = rendered(
        *(
            step(f"k{at}", *(f"k{key}" for key in waits if key < at), parallelism=jobs)
            for at, (jobs, waits) in enumerate(steps)
        )
    )
    parts = split(made, most=most)
    seen: set[str] = set()
    for part in parts:
        jobs = sum(one["parallelism"] for one in part.document["steps"])
        assert jobs <= most
        seen |= {one["key"] for one in part.document["steps"]}
        assert all(key in seen for one in part.document["steps"] for key in one.get("depends_on", ()))
    assert sorted(chain.from_iterable(keys(parts))) == sorted(f"k{at}" for at in range(len(steps)))


def uploaded(parts: tuple[Rendered, ...]) -> list[list[str]]:
    """The keys of the steps of each upload, those in groups too."""
    return [
        [inner["key"] for item in part.document["steps"] for inner in item.get("steps", [item])]
        for part in parts
    ]


def test_the_steps_of_a_large_group_are_ordered_before_they_are_divided() -> None:
    """Cut in the file's order its pieces would wait for each other, which no order of uploads could mend."""
    large = {"group": "g", "steps": [step("a", "d"), step("b"), step("c", "b"), step("d")]}
    parts = split(rendered(large, step("e")), most=2)
    assert uploaded(parts) == [["a", "d"], ["b", "c"], ["e"]]
    assert parts[0].origins == {(0,): "p.yml:(0,)", (0, 0): "p.yml:(0, 0)", (0, 1): "p.yml:(0, 3)"}


def test_a_step_that_stands_between_the_steps_of_a_group_divides_it() -> None:
    group = {"group": "g", "steps": [step("a"), step("b", "x")]}
    parts = split(rendered(group, step("x", "a")), most=2)
    assert uploaded(parts) == [["a", "x"], ["b"]]
    assert [item.get("group") for item in parts[1].document["steps"]] == ["g"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            (step("a", "b", parallelism=2), step("b", "a", parallelism=2)),
            (
                "p.yml:(0,): 'a', 'b' wait for each other, so that they are uploaded together, and make 4 jobs, where "
                "Buildkite takes 3 an upload"
            ),
        ),
        (
            ({"group": "g", "key": "g", "steps": [step("a"), step("b", "x")]}, step("x", "a", parallelism=2)),
            (
                "p.yml:(0,): 'g', 'x' wait for each other, so that they are uploaded together, and make 4 jobs, where "
                "Buildkite takes 3 an upload; group 'g' could be divided if it had no key and no gate in it"
            ),
        ),
    ],
)
def test_what_waits_for_each_other_and_is_too_much_is_said_as_it_is(
    steps: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        split(rendered(*steps), most=3)
    assert str(caught.value) == message


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[Rendered, int]:
    """Steps that wait for some of those before them in an order of their own, dealt out to groups at random."""
    count = draw(st.integers(1, 25))
    place = draw(st.permutations(range(count)))
    groups: dict[int, list[dict[str, Any]]] = {}
    for at in place:
        before = st.lists(st.integers(0, at - 1), max_size=3) if at else st.just([])
        waits = dict.fromkeys(f"k{one}" for one in draw(before))
        group = draw(st.integers(0, 4))
        # 0 is no group: each of its steps stands alone
        groups.setdefault(group or -at - 1, []).append(
            step(f"k{at}", *waits, parallelism=draw(st.integers(1, 4)))
        )
    items = [
        {"group": f"g{number}", "steps": steps} if number > 0 else steps[0]
        for number, steps in groups.items()
    ]
    return rendered(*items), draw(st.integers(4, 12))


@settings(max_examples=200)
@given(pipelines())
def test_any_pipeline_without_a_circle_is_divided_into_uploads_that_stand_in_an_order(
    given_: tuple[Rendered, int],
) -> None:
    whole, most = given_
    parts = split(whole, most=most)
    seen: set[str] = set()
    for part in parts:
        steps = [inner for item in part.document["steps"] for inner in item.get("steps", [item])]
        assert sum(one["parallelism"] for one in steps) <= most
        seen |= {one["key"] for one in steps}
        assert all(key in seen for one in steps for key in one.get("depends_on", ()))
        assert all(item["steps"] for item in part.document["steps"] if "group" in item)
    (before,) = uploaded((whole,))
    assert sorted(chain.from_iterable(uploaded(parts))) == sorted(before)
    group_of = {
        inner["key"]: item.get("group")
        for item in whole.document["steps"]
        for inner in item.get("steps", [item])
    }
    for part in parts:
        for item in part.document["steps"]:
            assert {group_of[inner["key"]] for inner in item.get("steps", [item])} == {item.get("group")}
