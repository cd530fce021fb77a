"""One graph of who waits for whom: what it reads, and that rendering, `run` and `--only` ask the same one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets
from omni_ci.local.order import waits_of
from omni_ci.rendering.steps import compose
from omni_ci.selection.gates import judge_gates
from omni_ci.selection.only import named_steps
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.waits import WaitGraph, entries_of, key_of, keys_of


def load(*steps: Any, name: str = "a.yml") -> PipelineFile:
    return load_pipeline(json.dumps({"steps": list(steps)}), name=name)


def step(key: str, **more: Any) -> dict[str, Any]:
    return {"label": key, "key": key, "command": "x", **more}


def direct(*steps: Any) -> dict[str, dict[str, bool]]:
    """Return what each step with a key waits for itself, and whether the failure is tolerated."""
    graph = WaitGraph([load(*steps)])
    return {
        node.ident: {target.ident: lenient for target, lenient in graph.direct(node).items()}
        for node in graph.steps.values()
    }


@pytest.mark.parametrize(
    ("written", "entries", "keys"),
    [
        (None, [], ()),
        ("a", ["a"], ("a",)),
        (["a", {"step": "b"}, "a"], ["a", {"step": "b"}, "a"], ("a", "b")),
        ({"step": "a", "allow_failure": True}, [{"step": "a", "allow_failure": True}], ("a",)),
        ([3, {"allow_failure": True}], [3, {"allow_failure": True}], ()),
    ],
)
def test_entries_and_keys_however_they_are_written(written: Any, entries: list[Any], keys: tuple[str, ...]):
    assert entries_of(written) == entries
    assert keys_of(written) == keys
    assert [key for key in map(key_of, entries) if key] == [
        key for key in ("a", "b", "a")[: len(entries)] if keys
    ]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("a", {"step": "a", "allow_failure": True}, False),
        ({"step": "a", "allow_failure": True}, "a", False),
        ({"step": "a", "allow_failure": True}, {"step": "a", "allow_failure": "true"}, True),
    ],
)
def test_a_failure_is_tolerated_only_where_every_entry_does(first: Any, second: Any, found: bool):
    assert direct(step("a"), step("b", depends_on=[first, second]))["b"] == {"a": found}


def test_a_group_that_tolerates_failures_does_so_for_its_steps():
    group = {
        "group": "G",
        "depends_on": "a",
        "allow_dependency_failure": True,
        "steps": [step("b"), step("c")],
    }
    assert direct(step("a"), group) == {"a": {}, "b": {"a": True}, "c": {"a": True}}


def test_what_tolerates_its_dependencies_does_not_pass_a_wait():
    """`allow_dependency_failure` is about the steps named in `depends_on`."""
    found = direct(step("a"), {"wait": None, "key": "w"}, step("b", allow_dependency_failure=True))
    assert found == {"a": {}, "w": {"a": False}, "b": {"w": False}}


def test_an_input_asks_and_parts_nothing():
    found = direct(step("a"), {"input": "Name?", "key": "name"}, step("b"), step("c", depends_on="name"))
    assert found == {"a": {}, "name": {}, "b": {}, "c": {"name": False}}


def test_a_wait_inside_a_group_parts_the_group_only():
    group = {"group": "G", "steps": [step("a"), {"wait": None, "key": "w"}, step("b")]}
    assert direct(group, step("c")) == {"a": {}, "w": {"a": False}, "b": {"w": False}, "c": {}}


def test_a_step_of_a_group_that_says_what_it_waits_for_does_not_wait_by_the_groups_place():
    group = {"group": "G", "steps": [step("c", depends_on="a"), step("d"), step("e", depends_on=None)]}
    found = direct(step("a"), step("b"), {"wait": None, "key": "w"}, group)
    assert (found["c"], found["d"], found["e"]) == ({"a": False}, {"w": False}, {})


NAMES = "abcdefgh"
EQUIPMENT = Equipment(
    presets=load_presets("schema: 1", name="presets.yml"),
    pods=Pods(package_templates(), PodRules(secrets={}, infra_retry=())),
)
Steps = list[Any]


@st.composite
def pipelines(draw: st.DrawFn, *, waits: bool) -> list[Steps]:
    """Steps a to h in two files, some in groups, waiting for earlier steps and groups, by place where *waits*."""
    known: list[str] = []

    def dependencies_of(earlier: list[str]) -> dict[str, Any]:
        if not earlier or draw(st.booleans()):
            return {}
        keys = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True))
        entries = [{"step": key, "allow_failure": True} if draw(st.booleans()) else key for key in keys]
        return {"depends_on": entries, **({"allow_dependency_failure": True} if draw(st.booleans()) else {})}

    def parted(steps: Steps) -> Steps:
        return [
            one for each in steps for one in ([each, "wait"] if waits and draw(st.booleans()) else [each])
        ]

    def part(names: Iterator[str], name: str) -> Any:
        if not draw(st.booleans()):
            known.append(name)
            return step(name, **dependencies_of(known[:-1]))
        around = dependencies_of(known)
        inside: Steps = []
        for one in filter(None, (name, next(names, None))):
            inside.append(step(one, **dependencies_of(known)))
            known.append(one)
        key = {"key": f"g{name}"} if draw(st.booleans()) else {}
        known.extend(key.values())
        return {"group": name, **key, **around, "steps": parted(inside)}

    return [parted([part(names, name) for name in names]) for names in (iter(NAMES[:4]), iter(NAMES[4:]))]


def placed(files: list[Steps], *, places: bool = True) -> Mapping[str, set[str]]:
    """Return which steps each waits for, told from the documents alone; a `wait` is "all before it"."""
    members: dict[str, set[str]] = {}
    for item in (item for file in files for item in file if isinstance(item, dict)):
        inside = {one["key"] for one in item.get("steps", [item]) if isinstance(one, dict)}
        members |= {key: {key} for key in inside}
        members |= {item["key"]: inside} if "key" in item else {}

    def keyed(part: dict[str, Any]) -> set[str]:
        keys = [one if isinstance(one, str) else one["step"] for one in part.get("depends_on") or []]
        return set().union(*(members[key] for key in keys))

    found: dict[str, set[str]] = {}
    for item, passed in (pair for file in files for pair in behind(file)):
        for one, inner in behind(item.get("steps", [item])):
            found[one["key"]] = keyed(one) | keyed(item)
            if "depends_on" not in one and places:
                found[one["key"]] |= inner | (set() if "depends_on" in item else passed)
    return found


def behind(steps: Steps) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Yield each step or group with the steps before the `wait` that it stands behind."""
    seen: set[str] = set()
    passed: set[str] = set()
    for item in steps:
        if item == "wait":
            passed = set(seen)
        else:
            yield item, passed
            seen |= {one["key"] for one in item.get("steps", [item]) if one != "wait"}


def reached(edges: Mapping[str, set[str]], name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        new = edges[todo.pop()] - found
        found |= new
        todo += new
    return found


def rendered(loaded: list[PipelineFile], kept: set[str]) -> list[Steps]:
    runs = [kept | {ident for ident, (stays, _) in judge_gates(one, kept).items() if stays} for one in loaded]
    both = list(zip(loaded, runs, strict=True))
    return [
        compose(one, EQUIPMENT, runs=mine, beside=[other for other in both if other[0] is not one]).document[
            "steps"
        ]
        for one, mine in both
    ]


@settings(max_examples=50)
@given(st.data(), st.booleans())
def test_what_runs_here_and_what_is_uploaded_wait_for_the_same_steps(data: st.DataObject, waits: bool):
    files = data.draw(pipelines(waits=waits))
    loaded = [load(*steps, name=f"{number}.yml") for number, steps in enumerate(files)]
    kept = data.draw(st.sets(st.sampled_from(NAMES), min_size=1))
    ids = {f"{one.name}#{leaf.ident}" for one in loaded for _, leaf in one.leaves() if leaf.ident in kept}
    local = {
        name.partition("#")[2]: {other.partition("#")[2]: lenient for other, lenient in others.items()}
        for name, others in waits_of(loaded, ids).by_id.items()
    }
    local_edges = {name: set(others) for name, others in local.items()}
    uploaded = rendered(loaded, kept)
    edges, expected = placed(uploaded), placed(files)
    assert edges.keys() == local.keys() == kept
    for name in kept:
        assert reached(local_edges, name) == reached(expected, name) & kept
        assert reached(edges, name) >= reached(expected, name) & kept
    if not waits:
        again = WaitGraph(load(*steps, name=f"{at}.yml") for at, steps in enumerate(uploaded) if steps)
        assert local == {
            node.ident: {target.ident: lenient for target, lenient in again.direct(node).items()}
            for node in again.steps.values()
        }


@settings(max_examples=50)
@given(st.data())
def test_what_only_takes_along_is_all_that_is_reached_by_keys(data: st.DataObject):
    files = data.draw(pipelines(waits=True))
    loaded = [load(*steps, name=f"{number}.yml") for number, steps in enumerate(files)]
    asked = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
    found = named_steps(asked, loaded, lambda: ())
    edges = placed(files, places=False)
    names = {name.partition("#")[2] for name, (runs, _) in found.decided.items() if runs}
    taken = names & set(NAMES)  # without a `wait` that stands in a group asked for by its key
    assert taken == set(asked).union(*(reached(edges, name) for name in asked))
    # so that none of them waits for a key that is not uploaded: what is written stays
    uploaded = [one for steps in rendered(loaded, taken) for item in steps for one in _parts(item)]
    written = {one["key"]: one for steps in files for item in steps for one in _parts(item) if "key" in one}
    for one in uploaded:
        if "depends_on" in (before := written.get(one.get("key"), {})):
            assert one["depends_on"] == before["depends_on"]


def _parts(item: Any) -> list[Any]:
    return (
        [one for one in (item, *item.get("steps", ())) if isinstance(one, dict)]
        if isinstance(item, dict)
        else []
    )
