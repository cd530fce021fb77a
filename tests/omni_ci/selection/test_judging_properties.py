"""What holds for every selection, whatever the pipeline and the change."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.policy import default_policy
from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.judging import Selection, judge
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.registry import load_registry

POLICY = default_policy()
REGISTRY = load_registry(
    "source_file_dependencies: {engine: [omni/engine/, '!omni/engine/notes/'], source_filter_fallback: [tests/shared/]}",
    name="d.yml",
)
PATHS = st.sampled_from(
    [
        "omni/engine/a.py",
        "omni/engine/notes/b.py",
        "omni/README.md",
        "omni/hooks.py",
        "docs/index.md",
        "pyproject.toml",
        "tests/conftest.py",
        "tests/test_a.py",
        "tests/shared/x.py",
        ".buildkite/bootstrap.yml",
        "p.yml",
        "gone/x.py",
        "d é/f.py",
    ]
)
DEPENDENCIES = st.none() | st.lists(
    st.sampled_from(
        [
            "omni/",
            "omni/engine",
            "!omni/engine/",
            "engine",
            "docs/",
            "omni/README.md",
            "gone/",
            "tests/test_a.py",
            "!docs/",
            "d é/",
        ]
    ),
    min_size=1,
    max_size=4,
)
COMMANDS = st.sampled_from(
    [
        "make",
        "pytest tests/test_a.py",
        "pytest tests/*.py",
        "pytest -m cpu",
        "scripts/run_cov_split.sh --model-id z --offline tests/test_a.py",
        "echo it's pytest tests/test_a.py",
    ]
)
STEPS = st.lists(st.tuples(COMMANDS, DEPENDENCIES), min_size=1, max_size=4)


def pipeline(steps: list[tuple[str, list[str] | None]], gate: list[str] | None) -> PipelineFile:
    written = [
        {"command": command, **({"source_file_dependencies": deps} if deps else {})}
        for command, deps in steps
    ]
    group = {"group": "g", "steps": written, **({"source_file_dependencies": gate} if gate else {})}
    return load_pipeline(json.dumps({"steps": [group, "wait", written[0]]}), name="p.yml")


def select(loaded: PipelineFile, changes: ChangeSet) -> Selection:
    tree = frozenset(
        {"omni/engine/a.py", "omni/hooks.py", "omni/README.md", "docs/index.md", "tests/test_a.py"}
    )
    return judge([loaded], changes, policy=POLICY, registry=REGISTRY, tree=tree)


@settings(max_examples=50)
@given(STEPS, DEPENDENCIES, st.sets(PATHS), st.sets(PATHS), st.booleans())
def test_more_changes_never_select_less(
    steps: list[tuple[str, list[str] | None]],
    gate: list[str] | None,
    few: set[str],
    more: set[str],
    listed: bool,
) -> None:
    loaded = pipeline(steps, gate)

    def running(files: set[str]) -> frozenset[str]:
        changes = ChangeSet(known=True, files=tuple(sorted(files)), base=None if listed else "b", head="a")
        return select(loaded, changes).running("p.yml")

    assert running(few) <= running(few | more)


@settings(max_examples=50)
@given(STEPS, DEPENDENCIES, st.sets(PATHS))
def test_every_step_has_one_verdict_with_a_reason(
    steps: list[tuple[str, list[str] | None]], gate: list[str] | None, files: set[str]
) -> None:
    loaded = pipeline(steps, gate)
    selection = select(loaded, ChangeSet.of(files))
    assert [verdict.step for verdict in selection.verdicts] == [leaf.ident for _, leaf in loaded.leaves()]
    assert all(verdict.because for verdict in selection.verdicts)
    assert selection.to_json() == select(loaded, ChangeSet.of(files)).to_json()


@settings(max_examples=50)
@given(STEPS, DEPENDENCIES)
def test_unknown_changes_select_everything(
    steps: list[tuple[str, list[str] | None]], gate: list[str] | None
) -> None:
    assert all(verdict.runs for verdict in select(pipeline(steps, gate), ChangeSet.unknown("why")).verdicts)
