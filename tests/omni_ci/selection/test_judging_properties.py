"""What holds for every selection, whatever the pipeline and the change."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.configuration import ConfigKind
from omni_ci.policy import Policy, load_policy
from omni_ci.repository.changes import ChangeSet
from omni_ci.repository.imports import ImportGraph
from omni_ci.repository.pytest_settings import PytestSettings
from omni_ci.repository.watching import Links
from omni_ci.selection.judging import DefinitionChange, Evidence, Rule, Selection, judge
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.registry import load_registry

POLICIES = [
    load_policy(text, name="policy.yml")
    for text in (
        "schema: 1",
        "schema: 1\nimports: union\nrun_all: [omni/hooks.py, linked/a.py]\nlabels: {some: [s2]}",
        "schema: 1\ndocs: ['omni/**']\ncoverage: {inputs: [linked/, setup.cfg]}",
    )
]
REGISTRY = load_registry(
    "source_file_dependencies: {engine: [omni/engine/, '!omni/engine/notes/'], source_filter_fallback: [tests/shared/]}",
    name="d.yml",
)
FILES = {
    "omni/engine/a.py": "from omni import hooks",
    "omni/hooks.py": "",
    "omni/README.md": "",
    "docs/index.md": "",
    "tests/conftest.py": "",
    "tests/test_a.py": "import omni.engine.a",
    "tests/shared/x.py": "",
    "tools/test_c.py": "from omni import hooks",
    "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']",
    "d é/f.py": "",
    "scripts/run_cov_split.sh": "",
}
CHANGES = [
    *FILES,
    "omni/engine/notes/b.py",
    "third_party/suite",
    "pytest.ini",
    "setup.cfg",
    "tests/new/test_b.py",
    ".buildkite/bootstrap.yml",
    ".buildkite/presets.yml",
    ".buildkite/policy.yml",
    "p.yml",
    "gone/x.py",
]
NOBODYS = ("x/1.bin", "x/2.bin", "x/3.bin", "x/4.md")
PATHS = st.sampled_from(CHANGES)
# Few of them match often: a step that runs anyhow shows nothing.
ENTRIES = st.sampled_from(
    [
        *["omni/engine", "!omni/engine/notes/", "docs/code/", "omni/README.md", "linked/new/", "d é/"] * 2,
        "engine",
        "!omni/",
        "docs/",
        "third_party/suite/src/",
        "gone/",
        ".",
    ]
)
DEPENDENCIES = st.lists(ENTRIES, min_size=1, max_size=2)
GATE = st.sampled_from([None, None, None, ["omni/", "tests/"], ["!docs/"]])
RUNS = [
    "make",
    "pytest tests/test_a.py",
    "pytest tests/*.py",
    "pytest -m cpu",
    "pytest -m cpu --ignore=tests/shared --ignore-glob=*_b.py",
    "pytest linked/test_a.py $$MORE",
    "cd tests && pytest",
    "torchrun tests/test_a.py",
    "pytest third_party/suite/test_x.py",
    "scripts/run_cov_split.sh --model-id z --offline tests/test_a.py",
    "echo it's pytest tests/test_a.py",
]
COMMANDS = st.sampled_from(RUNS)
STEP = st.fixed_dictionaries(
    {"command": COMMANDS, "source_file_dependencies": DEPENDENCIES},
    optional={
        "imports": st.sampled_from(["union", "report"]),
        "mirror_hardwares": st.just("l4_1"),
    },
)
STEPS = st.lists(STEP, min_size=2, max_size=6)
FOLDERS = ["omni", "tests", "docs", "omni/engine", "tests/shared", "omni/hooks.py"]
LINKS = st.builds(
    lambda targets, submodules: Links(targets=targets, submodules=submodules),
    st.dictionaries(st.sampled_from(["linked", "docs/code", "tests/more"]), st.sampled_from(FOLDERS)),
    st.sets(st.just("third_party/suite")).map(frozenset),
)
CONFIGS = st.dictionaries(
    st.sampled_from([".buildkite/presets.yml", ".buildkite/policy.yml", "setup.cfg", "gone/x.py"]),
    st.sampled_from(list(ConfigKind)),
)
BEFORE = st.sampled_from(["", "[tool.pytest.ini_options]\naddopts = ['-x']", FILES["pyproject.toml"]])
EVIDENCE = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(POLICIES),
        "registry": st.just(REGISTRY),
        "tree": st.sampled_from([frozenset(FILES), frozenset(FILES), None]),
        "links": LINKS,
        "configs": CONFIGS,
        "labels": st.sampled_from([(), (), (), ("some",), ("other", "ci-run-all")]),
        "imports": st.sampled_from([ImportGraph(FILES, FILES.get), ImportGraph(FILES, FILES.get), None]),
        "pytest": st.just(PytestSettings(FILES.get)),
        "pytest_before": BEFORE.map(lambda text: PytestSettings({"pyproject.toml": text}.get)),
    }
)
IDENTS = st.sets(st.sampled_from(["s0", "s1", "s2"]), max_size=1)


def pipeline(steps: list[dict[str, Any]], gate: list[str] | None) -> PipelineFile:
    written = [{**step, "key": f"s{number}"} for number, step in enumerate(steps)]
    group = {"group": "g", "steps": written, **({"source_file_dependencies": gate} if gate else {})}
    return load_pipeline(json.dumps({"steps": [group, "wait", {**steps[0], "key": "last"}]}), name="p.yml")


def select(loaded: PipelineFile, changes: ChangeSet, evidence: dict[str, Any]) -> Selection:
    return judge([loaded], Evidence(changes=changes, **evidence))


@settings(max_examples=300)
@given(
    STEPS,
    GATE,
    st.sets(PATHS, max_size=3),
    st.sets(PATHS, max_size=3),
    IDENTS,
    IDENTS,
    EVIDENCE,
    st.booleans(),
)
def test_more_changes_never_select_less(
    steps: list[dict[str, Any]],
    gate: list[str] | None,
    few: set[str],
    more: set[str],
    differ: set[str],
    differ_too: set[str],
    evidence: dict[str, Any],
    listed: bool,
) -> None:
    loaded = pipeline(steps, gate)

    def running(files: set[str], idents: set[str]) -> frozenset[str]:
        changes = ChangeSet(known=True, files=tuple(sorted(files)), base=None if listed else "b", head="a")
        definitions = {f"p.yml#{ident}": DefinitionChange("its definition changed") for ident in idents}
        return select(loaded, changes, {**evidence, "definitions": definitions}).running("p.yml")

    assert running(few, differ) <= running(few | more, differ | differ_too)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_two_changes_select_what_each_of_them_does(policy: Policy, listed: bool) -> None:
    loaded = pipeline(
        [{"command": run, "source_file_dependencies": ["d é/", "linked/shared/"]} for run in RUNS],
        None,
    )
    links = Links(
        targets={"linked": "tests", "omni/code": "docs"}, submodules=frozenset({"third_party/suite"})
    )
    evidence = {
        "policy": policy,
        "registry": REGISTRY,
        "tree": frozenset(FILES),
        "links": links,
        "configs": {".buildkite/policy.yml": ConfigKind.POLICY},
        "definitions": {"p.yml#s1": DefinitionChange("its definition changed")},
        "labels": ("some",),
        "imports": ImportGraph(FILES, FILES.get),
        "pytest": PytestSettings(FILES.get),
        "pytest_before": PytestSettings({}.get),
    }
    rules: set[Rule] = set()

    def running(*files: str) -> frozenset[str]:
        changes = ChangeSet(known=True, files=tuple(sorted(files)), base=None if listed else "b", head="a")
        selection = select(loaded, changes, evidence)
        rules.update(verdict.rule for verdict in selection.verdicts if verdict.runs)
        return selection.running("p.yml")

    alone = {path: running(path) for path in CHANGES}
    whole = running(*CHANGES)
    for one in CHANGES:
        assert alone[one] <= running(one, *NOBODYS)
    for one, other in combinations(CHANGES, 2):
        assert alone[one] | alone[other] <= running(one, other) <= whole
    assert rules >= {Rule.PREFIX, Rule.TEST, Rule.COVERAGE, Rule.RUN_ALL, Rule.SELF}
    assert (Rule.LABEL in rules) == ("some" in policy.labels)
    assert (Rule.IMPORT in rules) == (policy.imports == "union")


@settings(max_examples=100)
@given(STEPS, GATE, st.sets(PATHS), EVIDENCE)
def test_every_step_has_one_verdict_with_a_reason(
    steps: list[dict[str, Any]], gate: list[str] | None, files: set[str], evidence: dict[str, Any]
) -> None:
    loaded = pipeline(steps, gate)
    selection = select(loaded, ChangeSet.of(files), evidence)
    assert [verdict.step for verdict in selection.verdicts] == [leaf.ident for _, leaf in loaded.leaves()]
    assert all(verdict.because for verdict in selection.verdicts)
    assert selection.to_json() == select(loaded, ChangeSet.of(files), evidence).to_json()


@settings(max_examples=50)
@given(STEPS, GATE, EVIDENCE)
def test_unknown_changes_select_everything(
    steps: list[dict[str, Any]], gate: list[str] | None, evidence: dict[str, Any]
) -> None:
    verdicts = select(pipeline(steps, gate), ChangeSet.unknown("why"), evidence).verdicts
    assert all(verdict.runs for verdict in verdicts)
