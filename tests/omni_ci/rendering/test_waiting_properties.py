"""No step starts earlier because others are left out, unless a notice says so; judged from the documents alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods, package_templates
from omni_ci.hardware.presets import load_presets
from omni_ci.rendering.steps import render
from omni_ci.selection.gates import judge_gates
from omni_ci.yaml.loading import load_pipeline
from omni_hardware.errors import InputError

PRESETS = (
    "schema: 1\n"
    "skus: {l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1], queue: q, resource: nvidia.com/gpu,"
    " depends_on: s0}}\n"
)
EQUIPMENT = Equipment(
    presets=load_presets(PRESETS, name="presets.yml"),
    pods=Pods(package_templates(), PodRules(secrets={}, infra_retry=[{"exit_status": -1, "limit": 1}])),
    platform="cuda",
)
LABELS = [f"s{number}" for number in range(7)]
Document = dict[str, Any]


def step(key: str, *waits: str) -> Document:
    return {"label": key, "key": key, "command": "x", **({"depends_on": list(waits)} if waits else {})}


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Draw pipelines with gates and groups anywhere, whose steps wait for any others, but not in a circle."""
    keyed = draw(st.sets(st.sampled_from(LABELS), min_size=3))
    items: list[Any] = []
    into = items
    for label in LABELS:
        match draw(st.sampled_from(["step", "step", "gate", "open", "close"])):
            case "gate":
                into.append(draw(gates(keyed)))
            case "open" if into is items:
                items.append({"group": f"G{label}", "steps": (into := []), **draw(dependencies(keyed))})
            case "close":
                into = items
        key = {"key": label} if label in keyed else {}
        waits = draw(dependencies(keyed - {label}))
        preset = {"mirror_hardwares": "l4_1"} if "s0" in keyed and draw(st.integers(0, 3)) == 0 else {}
        into.append({"label": label, "command": "x", **preset, **waits, **key})
    document = {"steps": items}
    assume(not any(label in found for label, found in reached(document).items()))
    return document


def dependencies(keyed: set[str]) -> st.SearchStrategy[Document]:
    nothing = st.just(Document())
    some = st.lists(st.sampled_from(sorted(keyed)), max_size=2, unique=True)
    return st.one_of(nothing, nothing, nothing, some.map(lambda keys: {"depends_on": keys}))


def gates(keyed: set[str]) -> st.SearchStrategy[Any]:
    block = dependencies(keyed).map(lambda more: {"block": "b", **more})
    return st.one_of(st.just("wait"), dependencies(keyed).map(lambda more: {"wait": None, **more}), block)


def reached(document: Document) -> dict[str, set[str]]:
    """Return, for each label, the labels of all that must be done before it starts."""
    edges: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    _read(document["steps"], "top", edges, named, set())
    return {label: set(_walk(label, edges, named)) for label in edges if label in LABELS}


def _read(
    items: list[Any],
    name: str,
    edges: dict[str, set[str]],
    named: dict[str, set[str]],
    around: set[str],
) -> set[str]:
    """Enter the edges of a list; *around* is what its steps without a `depends_on` wait for besides their place."""
    gate, since, found = "", set[str](), set[str]()
    for number, item in enumerate(items):
        body = item if isinstance(item, dict) else {}
        place = {gate} if gate else set()
        says = {f"key {key}" for key in keys(body)} if "depends_on" in body else None
        preset = {"key s0"} if "mirror_hardwares" in body and body.get("key") != "s0" else set()
        if "steps" in body:
            outer = says if says is not None else place
            inner = _read(body["steps"], body["group"], edges, named, outer)
            since |= inner
            found |= inner
            continue
        if item == "wait" or "wait" in body or "block" in body:
            node = f"gate {name} {number}"
            edges[node] = (says if says is not None else place | since) | around
            gate, since = node, set()
            continue
        label = body["label"]
        named.setdefault(f"key {body.get('key')}", set()).add(label)
        # a group's own words hold for all its steps, its place for those that say nothing
        outer = around if says is None or any(one.startswith("key ") for one in around) else set()
        edges[label] = (says if says is not None else place) | outer | preset
        since.add(label)
        found.add(label)
    return found


def keys(body: Document) -> Iterator[str]:
    for entry in body["depends_on"] if isinstance(body["depends_on"], list) else [body["depends_on"]]:
        yield entry["step"] if isinstance(entry, dict) else entry


def _walk(label: str, edges: dict[str, set[str]], named: dict[str, set[str]]) -> Iterator[str]:
    seen: set[str] = set()
    todo = list(edges[label])
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [*edges.get(node, ()), *named.get(node, ())]
            if node in LABELS:
                yield node


def test_the_oracle_reads_what_buildkite_documents() -> None:
    found = reached(
        {
            "steps": [
                step("s0"),
                {"group": "G", "depends_on": ["s0"], "steps": [step("s1"), "wait", step("s2")]},
                "wait",
                step("s3"),
                {"label": "s4", "command": "x", "depends_on": []},
                {"wait": None, "depends_on": ["s0"]},
                step("s5"),
            ]
        }
    )
    assert found == {
        "s0": set(),
        "s1": {"s0"},
        "s2": {"s0", "s1"},
        "s3": {"s0", "s1", "s2"},
        "s4": set(),
        "s5": {"s0"},
    }


IN_A_GROUP: Document = {
    "steps": [
        {"group": "G", "steps": [step("s1"), step("s2", "s0")]},
        "wait",
        step("s3"),
        {"label": "s0", "key": "s0", "command": "x", "depends_on": []},
    ]
}
PAST_A_GATE_THAT_SAYS: Document = {
    "steps": [
        step("s0"),
        step("s1"),
        {"wait": None, "depends_on": ["s1"]},
        step("s2", "s0"),
        step("s3"),
        "wait",
        step("s4"),
    ]
}


# what it reached through a later step stands behind its own place
FORWARD: Document = {
    "steps": [
        "wait",
        step("s2", "s4"),
        {"wait": None, "depends_on": []},
        {"label": "s3", "command": "x"},
        "wait",
        step("s4"),
    ]
}
# nothing between two gates says what the first one holds back
GATE_AFTER_GATE: Document = {
    "steps": [
        step("s0"),
        "wait",
        {"label": "s1", "key": "s1", "command": "x", "depends_on": []},
        "wait",
        step("s2"),
        {"label": "s3", "key": "s3", "command": "x", "depends_on": ["s2"]},
    ]
}


@example(document=IN_A_GROUP, gone={"s2"})
@example(document=FORWARD, gone={"s4"})
@example(document=GATE_AFTER_GATE, gone={"s2"})
@example(document=PAST_A_GATE_THAT_SAYS, gone={"s2"})
@given(document=documents(), gone=st.sets(st.sampled_from(LABELS)))
def test_a_step_that_runs_waits_for_every_running_step_it_reached(document: Document, gone: set[str]) -> None:
    pipeline = load_pipeline(json.dumps(document), name="p.yml")
    runs = {leaf.ident for _, leaf in pipeline.leaves() if not leaf.goes_along and leaf.label not in gone}
    along = {ident for ident, (kept, _) in judge_gates(pipeline, frozenset(runs)).items() if kept}
    try:
        rendered = render(pipeline, EQUIPMENT, runs=frozenset(runs | along))
    except InputError:
        event("refused: a step to wait for has no key")
        return
    event(f"notices: {len(rendered.notices)}")
    if any("does not wait for what that one waited for" in notice for notice in rendered.notices):
        return
    before, after = reached(document), reached(rendered.document)
    running = {leaf.label for _, leaf in pipeline.leaves() if leaf.ident in runs and leaf.label}
    assert after.keys() == running
    assert {
        label: (before[label] & running) - after[label]
        for label in running
        if (before[label] & running) - after[label]
    } == {}
