"""Steps left out: nobody starts earlier for it, and nobody waits for what is not uploaded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.rendering.waiting import Left, Waiting
from omni_ci.selection.gates import judge_gates
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile


def load(*steps: Any, name: str = "a.yml") -> PipelineFile:
    return load_pipeline(json.dumps({"steps": list(steps)}), name=name)


def step(key: str, *waits: Any, **more: Any) -> dict[str, Any]:
    return {
        "label": key,
        "key": key,
        "command": "x",
        **({"depends_on": list(waits)} if waits else {}),
        **more,
    }


def group(key: str, *steps: Any, **more: Any) -> dict[str, Any]:
    return {"group": key, "key": key, "steps": list(steps), **more}


def left(pipeline: PipelineFile, ident: str, *gone: str) -> Left:
    leaves = {leaf.ident: leaf for _, leaf in pipeline.leaves()}
    return Waiting([(pipeline, leaves.keys() - set(gone))]).left(leaves[ident])


CHAIN = (step("image"), step("mid", "image"), step("leaf", "mid"))


def test_a_skipped_step_hands_on_what_it_waited_for() -> None:
    found = left(load(*CHAIN), "leaf", "mid")
    assert (found.entries, found.gone, found.inherited) == (["image"], ("mid",), ("image",))


def test_through_several_and_each_key_once() -> None:
    steps = (step("a"), step("b", "a"), step("c", "b", "a"), step("leaf", "c", "a"))
    assert left(load(*steps), "leaf", "b", "c").entries == ["a"]


def test_nothing_changes_where_nothing_is_missing() -> None:
    assert not left(load(*CHAIN), "leaf").is_changed
    assert left(load(step("x", "elsewhere")), "x").entries == ["elsewhere"]


def test_a_key_of_nobody_is_handed_on_too() -> None:
    assert left(load(step("mid", "elsewhere"), step("leaf", "mid")), "leaf", "mid").entries == ["elsewhere"]


@pytest.mark.parametrize(
    ("mid", "leaf", "entry"),
    [
        ("image", {"step": "mid", "allow_failure": True}, {"step": "image", "allow_failure": True}),
        ({"step": "image", "allow_failure": True}, "mid", {"step": "image", "allow_failure": True}),
        ({"step": "image"}, {"step": "mid"}, "image"),
    ],
)
def test_a_failure_tolerated_on_the_way_stays_tolerated(mid: Any, leaf: Any, entry: Any) -> None:
    pipeline = load(step("image"), step("mid", mid), step("leaf", leaf))
    assert left(pipeline, "leaf", "mid").entries == [entry]


def test_a_step_that_tolerates_all_its_dependencies_counts_as_tolerant() -> None:
    mid = step("mid", "image", allow_dependency_failure=True)
    found = left(load(step("image"), mid, step("leaf", "mid")), "leaf", "mid")
    assert found.entries == [{"step": "image", "allow_failure": True}]


def test_a_group_that_is_gone_hands_on_its_own_and_its_steps_waits() -> None:
    pipeline = load(step("a"), step("b"), group("g", step("in", "b"), depends_on="a"), step("leaf", "g"))
    assert sorted(left(pipeline, "leaf", "in").entries) == ["a", "b"]


def test_a_group_that_lost_a_step_is_waited_for_and_so_is_what_that_step_waited_for() -> None:
    pipeline = load(step("b"), group("g", step("in"), step("out", "b")), step("leaf", "g"))
    assert left(pipeline, "leaf", "out").entries == ["g", "b"]
    again = load(step("b"), group("g", step("in"), step("out", "in"), depends_on="b"), step("leaf", "g"))
    assert not left(again, "leaf", "out").is_changed


def test_a_step_behind_a_wait_hands_on_all_before_it() -> None:
    pipeline = load(step("a"), step("b"), "wait", step("mid"), step("other"), step("leaf", "mid", "other"))
    assert sorted(left(pipeline, "leaf", "mid").entries) == ["a", "b", "other"]


def test_an_approval_is_not_passed_by() -> None:
    pipeline = load({"block": "Go", "key": "go"}, step("mid"), step("other"), step("leaf", "mid", "other"))
    assert left(pipeline, "leaf", "mid").entries == ["other", "go"]


def test_a_step_without_a_key_is_named_where_nothing_else_covers_it() -> None:
    bare = {"label": "Bare", "command": "x"}
    pipeline = load(bare, "wait", step("mid"), step("other"), step("leaf", "mid", "other"))
    assert left(pipeline, "leaf", "mid").unnamed == ("Bare",)
    approval = load({"block": "Go?"}, step("mid"), step("other"), step("leaf", "mid", "other"))
    assert left(approval, "leaf", "mid").unnamed == ("Go?",)
    covered = load(bare, "wait", step("mid"), step("leaf", "mid"))
    assert left(covered, "leaf", "mid").unnamed == ()


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_reached_strictly_on_one_way_and_tolerantly_on_another_is_not_tolerated(order: int) -> None:
    mids = ["strict", {"step": "tolerant", "allow_failure": True}][::order]
    steps = (step("image"), step("strict", "image"), step("tolerant", "image"), step("leaf", *mids))
    assert left(load(*steps), "leaf", "strict", "tolerant").entries == ["image"]
    through = (*steps[:3], step("mid", *mids), step("leaf", "mid"))
    assert left(load(*through), "leaf", "mid", "strict", "tolerant").entries == ["image"]


def test_a_wait_that_goes_on_after_a_failure_hands_that_on() -> None:
    go_on = {"wait": None, "continue_on_failure": True}
    pipeline = load(step("a"), go_on, step("mid"), step("other"), step("leaf", "mid"))
    assert left(pipeline, "leaf", "mid").entries == [{"step": "a", "allow_failure": True}]


BEHIND_A_WAIT = (step("mid", "far"), "wait", step("leaf"))


def test_what_stood_behind_a_wait_waits_for_what_a_missing_step_before_it_waited_for() -> None:
    assert left(load(*BEHIND_A_WAIT), "leaf", "mid", "wait").entries == ["far"]
    with_more = load(step("near"), *BEHIND_A_WAIT)
    assert left(with_more, "leaf", "mid").entries == ["near", "far"]
    assert not left(with_more, "leaf").is_changed


def test_what_the_steps_before_a_wait_still_wait_for_is_not_written_once_more() -> None:
    assert not left(load(step("near", "far"), *BEHIND_A_WAIT), "leaf", "mid").is_changed


def test_an_approval_that_stands_takes_over_what_a_missing_step_before_it_waited_for() -> None:
    pipeline = load(step("mid", "far"), {"block": "Go", "key": "go"}, step("leaf"))
    leaves = {leaf.ident: leaf for _, leaf in pipeline.leaves()}
    waiting = Waiting([(pipeline, {"go", "leaf"})])
    assert (waiting.left(leaves["go"]).entries, waiting.left(leaves["leaf"]).entries) == (["far"], [])


def test_where_a_step_without_a_key_stands_before_the_wait_what_is_lost_is_told() -> None:
    found = left(load({"label": "Bare", "command": "x"}, *BEHIND_A_WAIT), "leaf", "mid")
    assert (found.entries, found.lost, found.unnamed) == ([], ("far",), ("Bare",))


def test_a_circle_ends() -> None:
    assert left(load(step("a", "b"), step("b", "a"), step("c", "a")), "c", "a", "b").entries == []


def test_another_files_skipped_step_is_not_waited_for() -> None:
    mine, other = (
        load(step("leaf", "far"), name="a.yml"),
        load(step("near"), step("far", "near"), name="b.yml"),
    )
    found = Waiting([(mine, None), (other, {"near"})]).left(mine.steps[0])
    assert found.entries == ["near"]


NAMES = "abcdefg"


@settings(max_examples=50)
@given(st.data())
def test_every_kept_step_waits_for_all_it_reached_and_no_key_dangles(data: st.DataObject) -> None:
    below = {
        name: data.draw(st.sets(st.sampled_from(NAMES[:at]))) if at else set()
        for at, name in enumerate(NAMES)
    }
    cut = data.draw(st.integers(0, len(NAMES)))
    steps = [step(name, *sorted(below[name])) for name in NAMES]
    pipeline = load(*(steps[:cut]), *([group("grp", *steps[cut:])] if steps[cut:] else []))
    kept = data.draw(st.sets(st.sampled_from(NAMES)))
    leaves = {leaf.ident: leaf for _, leaf in pipeline.leaves()}
    waiting = Waiting([(pipeline, kept)])
    after = {name: set(waiting.left(leaves[name]).entries) for name in kept}
    assert all(keys <= kept for keys in after.values())
    for name in kept:
        assert _reached(name, after) == _reached(name, below) & kept


@settings(max_examples=50)
@given(st.data())
def test_places_behind_a_wait_count_as_waiting_too(data: st.DataObject) -> None:
    """Whatever is left out, gates included, a kept step reaches every kept step that it reached before."""
    items: list[Any] = []
    for at, name in enumerate(NAMES):
        waits = data.draw(st.sets(st.sampled_from(NAMES[:at]), max_size=2)) if at else set()
        items.append(step(name, *sorted(waits)))
        if data.draw(st.booleans()):
            items.append("wait")
    kept = data.draw(st.sets(st.sampled_from(NAMES), min_size=1))
    pipeline = load(*items)
    gates = judge_gates(pipeline, kept)
    runs = kept | {ident for ident, (stays, _) in gates.items() if stays}
    waiting = Waiting([(pipeline, runs)])
    before, after = {}, {}
    seen: list[str] = []
    seen_kept: list[str] = []
    parted, parted_kept = 0, 0
    for leaf in pipeline.steps:
        if not leaf.key:
            parted = len(seen)
            parted_kept = len(seen_kept) if leaf.ident in runs else parted_kept
            continue
        before[leaf.key] = set(leaf.depends_on or seen[:parted])
        seen.append(leaf.key)
        if leaf.key in kept:
            found = waiting.left(leaf)
            assert not found.unnamed
            after[leaf.key] = set(found.entries or seen_kept[:parted_kept])
            seen_kept.append(leaf.key)
    for name in kept:
        assert after[name] <= kept
        assert _reached(name, after) >= _reached(name, before) & kept


def _reached(name: str, edges: dict[str, set[str]]) -> set[str]:
    return set().union(*({one} | _reached(one, edges) for one in edges.get(name, ())))


def test_a_place_that_tolerates_a_failure_does_not_stand_for_one_that_did_not() -> None:
    tolerant = {"wait": None, "continue_on_failure": True}
    pipeline = load(step("s3"), tolerant, step("s6", "s3"), "wait", step("s7"))
    assert left(pipeline, "s7").entries == []
    assert left(pipeline, "s7", "s6").entries == ["s3"]
