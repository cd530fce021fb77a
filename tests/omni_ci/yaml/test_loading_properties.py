"""Mistakes put at random places of a valid file: each is reported at its line, and nothing crashes the reader."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.yaml.document import Problem
from omni_ci.yaml.loading import LoadError, load_pipeline

VALID: dict[str, Any] = {
    "env": {"A": "1"},
    "agents": {"queue": "cpu"},
    "priority": 1,
    "steps": [
        {
            "label": "One",
            "key": "one",
            "commands": ["pytest a", "pytest b"],
            "mirror_hardwares": "l4_1",
            "source_file_dependencies": ["omni/", "tests/"],
            "timeout_in_minutes": 30,
            "parallelism": 2,
            "if": "build.branch == 'main'",
            "env": {"B": "2"},
            "artifact_paths": ["logs/*.txt"],
            "retry": {"automatic": [{"exit_status": -1, "limit": 1}], "manual": {"allowed": True}},
            "soft_fail": [{"exit_status": 5}],
            "concurrency": 1,
            "concurrency_group": "g",
            "cancel_on_build_failing": True,
            "depends_on": ["build", {"step": "other", "allow_failure": True}],
        },
        {
            "label": "Two",
            "image": "registry.example/ci",
            "agents": {"queue": "gpu"},
            "skip": False,
            "tests": [
                {
                    "paths": ["tests/a.py", "tests/b.py"],
                    "marks": "core_model and cpu",
                    "keyword": "fast",
                    "run_level": "core_model",
                    "shards": 2,
                    "strict": True,
                    "args": ["-v"],
                }
            ],
        },
        {"label": "Three", "tests": {"cov": {"model_id": "m", "offline": ["a.py"], "online": ["b.py"]}}},
        {
            "group": "Group",
            "key": "group",
            "allow_dependency_failure": False,
            "steps": [{"command": "true", "label": "Inner", "priority": 2, "branches": "main"}],
        },
        {"block": "Ship?", "key": "ship", "prompt": "really"},
        {"trigger": "other", "build": {"branch": "main"}},
        {"wait": "", "continue_on_failure": True},
    ],
}
# Where a mistake goes in, and what kind of value belongs there.
TEXT, WHOLE, FLAG = "text", "whole", "flag"
LEAVES: dict[tuple[str | int, ...], str] = {
    ("agents", "queue"): "scalar",
    ("priority",): WHOLE,
    ("steps", 0, "label"): TEXT,
    ("steps", 0, "key"): TEXT,
    ("steps", 0, "commands", 1): TEXT,
    ("steps", 0, "mirror_hardwares"): TEXT,
    ("steps", 0, "source_file_dependencies", 0): TEXT,
    ("steps", 0, "timeout_in_minutes"): WHOLE,
    ("steps", 0, "parallelism"): WHOLE,
    ("steps", 0, "if"): TEXT,
    ("steps", 0, "env", "B"): "scalar",
    ("steps", 0, "artifact_paths", 0): TEXT,
    ("steps", 0, "retry", "automatic", 0, "exit_status"): WHOLE,
    ("steps", 0, "retry", "automatic", 0, "limit"): WHOLE,
    ("steps", 0, "retry", "manual", "allowed"): FLAG,
    ("steps", 0, "soft_fail", 0, "exit_status"): WHOLE,
    ("steps", 0, "concurrency"): WHOLE,
    ("steps", 0, "concurrency_group"): TEXT,
    ("steps", 0, "cancel_on_build_failing"): FLAG,
    ("steps", 0, "depends_on", 0): TEXT,
    ("steps", 0, "depends_on", 1, "step"): TEXT,
    ("steps", 0, "depends_on", 1, "allow_failure"): FLAG,
    ("steps", 1, "image"): TEXT,
    ("steps", 1, "tests", 0, "paths", 1): TEXT,
    ("steps", 1, "tests", 0, "marks"): TEXT,
    ("steps", 1, "tests", 0, "keyword"): TEXT,
    ("steps", 1, "tests", 0, "run_level"): TEXT,
    ("steps", 1, "tests", 0, "shards"): WHOLE,
    ("steps", 1, "tests", 0, "strict"): FLAG,
    ("steps", 1, "tests", 0, "args", 0): TEXT,
    ("steps", 2, "tests", "cov", "model_id"): TEXT,
    ("steps", 2, "tests", "cov", "offline", 0): TEXT,
    ("steps", 3, "group"): TEXT,
    ("steps", 3, "key"): TEXT,
    ("steps", 3, "allow_dependency_failure"): FLAG,
    ("steps", 3, "steps", 0, "label"): TEXT,
    ("steps", 3, "steps", 0, "priority"): WHOLE,
    ("steps", 3, "steps", 0, "branches"): TEXT,
    ("steps", 4, "key"): TEXT,
    ("steps", 4, "prompt"): TEXT,
    ("steps", 6, "continue_on_failure"): FLAG,
}
MAPPINGS: tuple[tuple[str | int, ...], ...] = (
    (),
    ("steps", 0),
    ("steps", 0, "retry"),
    ("steps", 0, "retry", "automatic", 0),
    ("steps", 0, "retry", "manual"),
    ("steps", 0, "soft_fail", 0),
    ("steps", 0, "depends_on", 1),
    ("steps", 1),
    ("steps", 1, "tests", 0),
    ("steps", 2, "tests", "cov"),
    ("steps", 3),
    ("steps", 3, "steps", 0),
    ("steps", 4),
    ("steps", 5),
    ("steps", 6),
)


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        document = document[part]
    return document


def wrong_value(kind: str, number: int) -> object:
    """Return a scalar that does not belong there, with a number to find its line by."""
    return {TEXT: number, WHOLE: f"w{number}", FLAG: f"w{number}", "scalar": [f"w{number}"]}[kind]


def test_the_file_is_valid_without_mistakes() -> None:
    assert len(list(load_pipeline(json.dumps(VALID), name="p.yml").leaves())) == 7


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(sorted(LEAVES, key=str)), unique=True, max_size=6),
    st.lists(st.sampled_from(MAPPINGS), unique=True, max_size=4),
)
def test_each_wrong_value_and_each_unknown_name_is_reported_at_its_line(
    leaves: list[tuple[str | int, ...]], mappings: list[tuple[str | int, ...]]
) -> None:
    document = copy.deepcopy(VALID)
    marks: list[str] = []
    for index, path in enumerate(leaves):
        number = 900_000 + index
        at(document, path[:-1])[path[-1]] = wrong_value(LEAVES[path], number)
        marks.append(str(number))
    for index, path in enumerate(mappings):
        at(document, path)[f"zz_unknown_{index}"] = "x"
        marks.append(f"zz_unknown_{index}")
    text = json.dumps(document, indent=1)
    if not marks:
        return
    # json.dumps puts a list's text on the line below the key, which is where the reader may point as well
    lines = text.splitlines()
    told: set[int] = set()
    try:
        load_pipeline(text, name="p.yml")
    except LoadError as error:
        told = {problem.where.line for problem in error.problems}
    for mark in marks:
        line = next(number for number, one in enumerate(lines, start=1) if mark in one)
        assert (
            {line, line - 1} & told
            if '["' in lines[line - 2] or lines[line - 2].endswith("[")
            else line in told
        )


SCALARS = st.sampled_from(
    [None, True, False, 0, 3, -1, 1.5, "", "x", "wait", "mi300_1", "tests/a", "$X", "a b"]
)
NAMES = st.sampled_from(
    [
        *VALID["steps"][0],
        *VALID["steps"][1],
        "group",
        "steps",
        "wait",
        "block",
        "trigger",
        "agent_pool",
        "grade",
        "x",
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["paths", "marks", "cov", "shards", "automatic", "limit", "steps", "step"]), inner
        )
    ),
    max_leaves=5,
)
STEPS = st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=5))


@settings(max_examples=50)
@given(
    st.dictionaries(st.sampled_from(["env", "agents", "notify", "x-a", "zz"]), VALUES),
    st.lists(STEPS, max_size=4),
)
def test_whatever_is_written_loads_or_is_refused(top: dict[str, Any], steps: list[Any]) -> None:
    found: tuple[Problem, ...] = ()
    try:
        load_pipeline(json.dumps({**top, "steps": steps}), name="p.yml")
    except LoadError as error:
        found = error.problems
    assert all(problem.where.file == "p.yml" for problem in found)
