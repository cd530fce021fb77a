"""Which steps run, and the reason shown for it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from omni_ci.configuration import ConfigKind
from omni_ci.policy import default_policy, load_policy
from omni_ci.repository.changes import ChangeSet
from omni_ci.repository.pytest_settings import PytestSettings
from omni_ci.repository.watching import Links
from omni_ci.selection import judging
from omni_ci.selection.judging import DefinitionChange, Evidence, Mode, Rule, Selection, Verdict
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.registry import NO_REGISTRY, Registry, load_registry

FILE = ".buildkite/cuda/test-merge.yml"
POLICY = default_policy()
TREE = frozenset(
    {
        "omni/engine/a.py",
        "omni/engine/README.md",
        "omni/hooks.py",
        "docs/index.md",
        "README.md",
        "Makefile",
        "pyproject.toml",
        "tests/conftest.py",
        "tests/e2e/conftest.py",
        "tests/e2e/test_a.py",
        "tests/unit/test_b.py",
        "scripts/run_cov_split.sh",
    }
)


def load(text: str, name: str = FILE) -> PipelineFile:
    return load_pipeline(textwrap.dedent(text), name=name)


def one_step(deps: str | None, command: str = "make", more: str = "") -> PipelineFile:
    written = f", source_file_dependencies: {deps}" if deps else ""
    return load(f"steps: [{{label: One, command: {json.dumps(command)}{written}{more}}}]")


def compared(*files: str) -> ChangeSet:
    return ChangeSet(known=True, files=tuple(sorted(files)), base="b" * 40, head="a" * 40)


def judge(
    pipelines: Sequence[PipelineFile],
    changes: ChangeSet,
    *,
    mode: Mode = Mode.DIFF,
    config_from: str = "head",
    **evidence: Any,
) -> Selection:
    return judging.judge(pipelines, Evidence(changes=changes, **evidence), mode=mode, config_from=config_from)


def verdict(
    pipeline: PipelineFile,
    files: Iterable[str],
    *,
    registry: Registry = NO_REGISTRY,
    tree: frozenset[str] | None = TREE,
    labels: Iterable[str] = (),
    **evidence: Any,
) -> Verdict:
    selection = judge(
        [pipeline],
        compared(*files),
        policy=POLICY,
        registry=registry,
        tree=tree,
        labels=tuple(labels),
        **evidence,
    )
    (found,) = selection.verdicts
    return found


@pytest.mark.parametrize(
    ("deps", "changed", "because"),
    [
        ("[omni/]", "omni/engine/a.py", "omni/engine/a.py changed, under omni/"),
        ("[omni/engine]", "omni/engine/a.py", "omni/engine/a.py changed, under omni/engine"),
        ("[omni/hooks.py]", "omni/hooks.py", "omni/hooks.py changed"),
        ("[Makefile]", "Makefile", "Makefile changed"),
        ("[docs/]", "docs/index.md", "docs/index.md changed, under docs/"),
        ("[README.md]", "README.md", "README.md changed"),
        ("[omni/engine/README.md]", "omni/engine/README.md", "omni/engine/README.md changed"),
        ("['!docs/']", "omni/hooks.py", "omni/hooks.py changed, under anything but docs/"),
    ],
)
def test_a_change_under_a_declared_path_runs_the_step(deps: str, changed: str, because: str) -> None:
    found = verdict(one_step(deps), [changed])
    assert (found.runs, found.because, found.rule) == (True, because, Rule.PREFIX)


@pytest.mark.parametrize(
    ("deps", "changed", "because"),
    [
        ("[omni/engine/]", "omni/hooks.py", "nothing changed under omni/engine/"),
        ("[omni/hooks.py]", "omni/hooks.pyi", "nothing changed under omni/hooks.py"),
        ("[omni/engine]", "omni/engine2/a.py", "nothing changed under omni/engine"),
        ("[omni/engine]", "Omni/engine/a.py", "nothing changed under omni/engine"),
        (
            "[omni/]",
            "omni/engine/README.md",
            "only documentation changed under omni/ (omni/engine/README.md)",
        ),
        ("[omni/]", "docs/index.md", "nothing changed under omni/"),
        ("['!omni/']", "omni/hooks.py", "nothing changed under !omni/"),
    ],
)
def test_any_other_change_does_not(deps: str, changed: str, because: str) -> None:
    found = verdict(one_step(deps), [changed])
    assert (found.runs, found.because) == (False, because)


def test_infra450_exclusion_prefix() -> None:
    """An exclusion takes out files, one by one: any other changed file still runs the step."""
    step = one_step("[omni/, '!omni/engine/']")
    assert not verdict(step, ["omni/engine/a.py"]).runs
    found = verdict(step, ["omni/engine/a.py", "omni/hooks.py"])
    assert (found.runs, found.because) == (True, "omni/hooks.py changed, under omni/")


def test_vllm51345_a_vanished_path_runs_the_step_and_says_so() -> None:
    found = verdict(one_step("[omni/gone/, omni/engine/]"), ["README.md"])
    assert (found.runs, found.because) == (True, "it watches omni/gone/, which does not exist")
    assert verdict(one_step("[omni/gone.py]"), ["omni/gone.py"]).because == "omni/gone.py changed"
    assert not verdict(one_step("[omni/gone/]"), ["README.md"], tree=None).runs


def test_without_dependencies_a_step_always_runs_and_says_so() -> None:
    found = verdict(one_step(None), ["docs/index.md"])
    assert (found.runs, found.rule) == (True, Rule.DEFAULT)
    assert "declares no source_file_dependencies" in found.because


def test_keys_stand_for_their_paths_and_carry_their_exclusions() -> None:
    registry = load_registry(
        "source_file_dependencies: {z_image: [omni/, '!omni/engine/'], other: [tests/]}", name="d.yml"
    )
    step = one_step("[z_image, pyproject.toml]")
    found = verdict(step, ["omni/hooks.py"], registry=registry)
    assert (found.runs, found.because, found.rule) == (
        True,
        "omni/hooks.py changed, under omni/ of 'z_image'",
        Rule.KEY,
    )
    shut = verdict(step, ["omni/engine/a.py"], registry=registry)
    assert (shut.runs, shut.because, shut.rule) == (
        False,
        "nothing changed under the paths of 'z_image', pyproject.toml",
        Rule.KEY,
    )
    assert verdict(one_step("[z_image, omni/engine/a.py]"), ["omni/engine/a.py"], registry=registry).runs
    assert not verdict(one_step("[z_image, '!omni/hooks.py']"), ["omni/hooks.py"], registry=registry).runs
    with pytest.raises(LoadError, match=r"unknown registry key 'z_imag'.*did you mean 'z_image'"):
        verdict(one_step("z_imag"), [], registry=registry)


def test_the_registrys_fallback_adds_instead_of_falling_back() -> None:
    """One unrelated hit must not hide a change to what all tests share."""
    registry = load_registry(
        "source_file_dependencies: {source_filter_fallback: [tests/helpers/], a: [omni/], b: [docs/]}",
        name="d.yml",
    )
    found = verdict(one_step("b"), ["omni/hooks.py", "tests/helpers/x.py"], registry=registry)
    assert (found.runs, found.rule) == (True, Rule.RUN_ALL)


GROUP = """
    steps:
      - group: G
        source_file_dependencies: [omni/]
        steps:
          - {label: narrow, command: make, source_file_dependencies: [tests/unit/]}
          - {label: bare, command: make}
          - {label: tests, command: pytest tests/e2e/test_a.py}
"""


@pytest.mark.parametrize(
    ("files", "running"),
    [
        (["omni/hooks.py"], {"bare", "tests"}),
        (["omni/hooks.py", "tests/unit/test_b.py"], {"narrow", "bare", "tests"}),
        (["tests/unit/test_b.py"], set()),
        (["tests/e2e/test_a.py"], {"tests"}),
        (["README.md"], set()),
    ],
)
def test_a_groups_list_gates_what_its_steps_declare(files: list[str], running: set[str]) -> None:
    selection = judge([load(GROUP)], compared(*files), policy=POLICY, tree=TREE)
    assert selection.running(FILE) == running
    assert {verdict.group for verdict in selection.verdicts} == {"G"}


def test_the_gates_reason_is_shown() -> None:
    shut = judge([load(GROUP)], compared("README.md"), policy=POLICY, tree=TREE).verdicts
    assert shut[0].because == "nothing changed under omni/, which its group 'G' watches"
    opened = judge([load(GROUP)], compared("omni/hooks.py"), policy=POLICY, tree=TREE).verdicts
    assert opened[1].because == "omni/hooks.py changed, under omni/ (its group's list)"


@pytest.mark.parametrize(
    ("command", "changed", "because"),
    [
        (
            "pytest tests/e2e/test_a.py",
            "tests/e2e/test_a.py",
            "tests/e2e/test_a.py changed, its own test file",
        ),
        (
            "pytest tests/e2e/",
            "tests/e2e/test_new.py",
            "tests/e2e/test_new.py changed, under its test path tests/e2e",
        ),
        ("pytest tests", "tests/unit/test_b.py", "tests/unit/test_b.py changed, under its test path tests"),
        (
            "pytest tests/e2e/test_a.py",
            "tests/conftest.py",
            "tests/conftest.py changed, a conftest of tests/e2e/test_a.py",
        ),
        (
            "pytest tests/e2e/*.py",
            "tests/e2e/test_a.py",
            "tests/e2e/test_a.py changed, under its test path tests/e2e/*.py",
        ),
        (
            "cd tests && pytest e2e/test_a.py",
            "tests/e2e/test_a.py",
            "tests/e2e/test_a.py changed, its own test file",
        ),
    ],
)
def test_a_changed_test_file_selects_its_step(command: str, changed: str, because: str) -> None:
    found = verdict(one_step("[omni/]", command), [changed])
    assert (found.runs, found.because, found.rule) == (True, because, Rule.TEST)


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("pytest tests/e2e/test_a.py", "tests/unit/conftest.py"),
        ("pytest tests/e2e/test_a.py", "tests/e2e/README.md"),
        ("pytest tests/e2e/*.py", "tests/e2e/deep/test_a.py"),
        ("pytest tests/e2e --ignore=tests/unit", "tests/unit/test_b.py"),
        ("pytest -m omni", "omni/engine/a.py"),
    ],
)
def test_other_tests_do_not(command: str, changed: str) -> None:
    assert not verdict(one_step("[docs/]", command), [changed]).runs


def test_what_cannot_be_read_is_said() -> None:
    step = one_step("[omni/]", "echo it's; pytest tests/e2e/test_a.py")
    selection = judge([step], compared("tests/e2e/test_a.py"), policy=POLICY, tree=TREE)
    assert selection.verdicts[0].runs
    assert "step 'One': its shell cannot be read (the ' of line 1 is not closed)" in selection.notices[0]
    more = judge(
        [one_step("[omni/]", "pytest tests $$MORE")], compared("README.md"), policy=POLICY, tree=TREE
    )
    assert "what $MORE holds is not known; it may name tests" in more.notices[0]


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("pytest tests/e*", "tests/e2e/test_a.py"),
        ("pytest tests/*/test_b.py", "tests/unit/conftest.py"),
        ("pytest tests/{e2e,other}/", "tests/e2e/test_a.py"),
        ("cd tests/e2e && pytest -v", "tests/e2e/test_a.py"),
        ("torchrun tests/e2e/test_a.py", "tests/e2e/test_a.py"),
        ("pytest tests/$SUITE/test_a.py", "tests/e2e/test_a.py"),
    ],
)
def test_a_test_named_in_another_spelling_runs_its_step(command: str, changed: str) -> None:
    found = verdict(one_step("[docs/]", command), [changed])
    assert (found.runs, found.rule) == (True, Rule.TEST)


def told(text: str, file: str = "pyproject.toml") -> PytestSettings:
    return PytestSettings({file: text}.get)


TESTPATHS = "[tool.pytest.ini_options]\ntestpaths = ['tests']\n"


@pytest.mark.parametrize(
    ("command", "settings", "changed", "because"),
    [
        (
            "pytest -m cpu",
            TESTPATHS,
            "tests/unit/test_b.py",
            "tests/unit/test_b.py changed, under tests, of the testpaths of pyproject.toml",
        ),
        (
            "pytest -m cpu",
            TESTPATHS,
            "tests/unit/data.json",
            "tests/unit/data.json changed, under tests, of the testpaths of pyproject.toml",
        ),
        (
            "pytest -m cpu",
            "",
            "tools/test_c.py",
            "tools/test_c.py changed, a test file, and its pytest is given no path",
        ),
        (
            "pytest -m cpu",
            "",
            "tools/deep/conftest.py",
            "tools/deep/conftest.py changed, a test file, and its pytest is given no path",
        ),
        ("pytest -m cpu", TESTPATHS, "conftest.py", "conftest.py changed, a conftest of tests"),
        (
            "pytest tests/e2e $$MORE",
            TESTPATHS,
            "tools/test_c.py",
            "tools/test_c.py changed, a test file, and what $MORE holds is not known",
        ),
        (
            "uv run --group test pytest",
            TESTPATHS,
            "tests/unit/test_b.py",
            "tests/unit/test_b.py changed, under tests, of the testpaths of pyproject.toml",
        ),
    ],
)
def test_a_run_without_a_path_has_tests_of_its_own(
    command: str, settings: str, changed: str, because: str
) -> None:
    found = verdict(one_step("[omni/]", command), [changed], pytest=told(settings))
    assert (found.runs, found.because, found.rule) == (True, because, Rule.TEST)


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("pytest -m cpu", "tools/test_c.py"),
        ("pytest -m cpu --ignore=tests/unit", "tests/unit/test_b.py"),
        ("pytest -m cpu", "tests/README.md"),
        ("pytest tests/e2e $$MORE", "tools/helper.py"),
        ("pytest tests --ignore=tests/unit", "tests/unit/test_b.py"),
    ],
)
def test_what_it_does_not_collect_is_none_of_them(command: str, changed: str) -> None:
    assert not verdict(one_step("[omni/]", command), [changed], pytest=told(TESTPATHS)).runs


def test_a_deselected_file_is_still_imported_so_that_it_can_break_the_run() -> None:
    step = one_step("[omni/]", "pytest tests --deselect tests/unit/test_b.py")
    assert verdict(step, ["tests/unit/test_b.py"]).because == (
        "tests/unit/test_b.py changed, under its test path tests"
    )


ADDOPTS = f"{TESTPATHS}addopts = ['--ignore=tests/e2e']\n"


@pytest.mark.parametrize(
    ("now", "before", "because"),
    [
        (ADDOPTS, TESTPATHS, "pyproject.toml changed, and in it what pytest is told: addopts"),
        (TESTPATHS, "", "pytest reads its settings from pyproject.toml, and at the base from nowhere"),
        (f"{TESTPATHS}[project]\nname = 'x'\n", TESTPATHS, None),
        (f"{TESTPATHS}markers = ['a', 'b']\n", f"{TESTPATHS}markers = ['a']\n", None),
        (
            f"{TESTPATHS}markers = ['b']\n",
            f"{TESTPATHS}markers = ['a']\n",
            "pyproject.toml changed, and in it what pytest is told: markers",
        ),
    ],
)
def test_settings_of_pytest_that_changed_run_the_steps_that_read_them(
    now: str, before: str, because: str | None
) -> None:
    def found(command: str, *changed: str) -> Verdict:
        step = one_step("[omni/]", command)
        return verdict(step, changed, pytest=told(now), pytest_before=told(before))

    judged = found("pytest tests/e2e", "pyproject.toml")
    assert (judged.runs, judged.because if judged.runs else None) == (because is not None, because)
    assert not found("pytest tests/e2e", "README.md").runs
    assert not found("python tests/e2e/test_a.py", "pyproject.toml").runs


def test_listed_settings_of_pytest_have_no_base_to_compare_with() -> None:
    step = one_step("[omni/]", "pytest tests/e2e")
    evidence = {"policy": POLICY, "tree": TREE, "pytest": told(TESTPATHS)}
    (found,) = judge([step], ChangeSet.of(["pyproject.toml"]), **evidence).verdicts
    assert (found.runs, found.because) == (
        True,
        "pyproject.toml is listed, which pytest reads its settings from, and there is no base to compare with",
    )
    (other,) = judge([step], ChangeSet.of(["pkg/setup.cfg"]), **evidence).verdicts
    assert not other.runs


def test_a_list_that_takes_out_all_it_names_runs_its_step_and_says_so() -> None:
    found = verdict(one_step("[omni/, '!omni/']"), ["README.md"])
    assert (found.runs, found.because) == (
        True,
        "it watches nothing: omni/, !omni/ takes out all it names",
    )
    assert not verdict(one_step("[omni/, scripts/, '!omni/']"), ["README.md"]).runs


def test_a_dot_is_everything() -> None:
    found = verdict(one_step("[.]"), ["omni/hooks.py"])
    assert (found.runs, found.because) == (True, "omni/hooks.py changed, under anything")
    assert verdict(one_step("[.]"), []).because == "nothing changed under ."
    assert verdict(one_step("[., '!omni/']"), ["omni/hooks.py"]).runs is False


def test_a_file_that_concerns_every_step_does_so_under_every_name_it_has() -> None:
    links = Links(targets={".buildkite/bootstrap.yml": "ci/start.yml", "pyproject.toml": "ci/project.toml"})
    found = verdict(one_step("[omni/]"), ["ci/start.yml"], links=links)
    assert found.because == ".buildkite/bootstrap.yml changed, which concerns every step"
    measured = verdict(one_step("[omni/]", COVERAGE), ["ci/project.toml"], links=links)
    assert measured.because == "pyproject.toml is a coverage input"


COVERAGE = "scripts/run_cov_split.sh --model-id z --offline tests/e2e/test_a.py -- -m cpu"


@pytest.mark.parametrize(
    "changed", ["scripts/run_cov_split.sh", "pyproject.toml", "ci/omni_ci/coverage/split.py"]
)
@pytest.mark.parametrize(
    "command", [COVERAGE, COVERAGE.replace("scripts/run_cov_split.sh", "omni-ci cov split")]
)
def test_coverage_inputs_select_the_steps_that_measure(command: str, changed: str) -> None:
    found = verdict(one_step("[omni/]", command), [changed])
    assert (found.runs, found.because, found.rule) == (True, f"{changed} is a coverage input", Rule.COVERAGE)
    assert not verdict(one_step("[omni/]", "pytest tests/e2e/test_a.py"), [changed]).runs
    assert not verdict(one_step("[omni/]", command), ["docs/index.md"]).runs


def test_pytorch64921_a_label_beats_the_filter() -> None:
    found = verdict(one_step("[omni/]"), ["README.md"], labels=["bug", "ci-run-all"])
    assert (found.runs, found.because, found.rule) == (True, "label 'ci-run-all' asks for it", Rule.LABEL)
    policy = load_policy("schema: 1\nlabels: {e2e: ['E2E*']}", name="p.yml")
    pipeline = load("""
        steps:
          - {label: unit, command: make, source_file_dependencies: [omni/]}
          - group: E2E Test
            steps: [{label: x, command: make, source_file_dependencies: [omni/]}]
    """)
    selection = judge([pipeline], compared(), policy=policy, tree=TREE, labels=("e2e",))
    assert selection.running(FILE) == {"x"}


def test_pytorch64902_a_file_that_concerns_everything_runs_everything() -> None:
    found = verdict(one_step("[omni/]"), [".buildkite/bootstrap.yml"])
    assert (found.runs, found.rule) == (True, Rule.RUN_ALL)


def test_a_changed_definition_runs_its_step_and_no_other() -> None:
    pipeline = load("""
        steps:
          - {label: a, command: make, source_file_dependencies: [omni/]}
          - {label: b, command: make, source_file_dependencies: [omni/]}
    """)
    changes = {f"{FILE}#b": DefinitionChange("definition at base unreadable")}
    selection = judge([pipeline], compared(FILE), policy=POLICY, tree=TREE, definitions=changes)
    assert [(v.runs, v.because, v.rule) for v in selection.verdicts] == [
        (False, "nothing changed under omni/", Rule.PREFIX),
        (True, "definition at base unreadable", Rule.SELF),
    ]


@pytest.mark.parametrize(
    ("listed", "running"),
    [
        (FILE, {"equipped", "plain", "keyed"}),
        (".buildkite/presets.yml", {"equipped"}),
        (".buildkite/templates/k8s.yml.j2", {"equipped"}),
        (".buildkite/dependencies.yml", {"keyed"}),
        (".buildkite/policy.yml", {"equipped", "plain", "keyed"}),
        (".buildkite/cuda/test-ready.yml", set()),
    ],
)
def test_listed_configuration_selects_what_it_can_render(listed: str, running: set[str]) -> None:
    pipeline = load("""
        steps:
          - {label: equipped, command: make, mirror_hardwares: l4_1, source_file_dependencies: [omni/]}
          - {label: plain, command: make, source_file_dependencies: [omni/]}
          - {label: keyed, command: make, source_file_dependencies: [engine]}
    """)
    configs = {
        ".buildkite/presets.yml": ConfigKind.PRESETS,
        ".buildkite/templates/k8s.yml.j2": ConfigKind.TEMPLATE,
        ".buildkite/dependencies.yml": ConfigKind.REGISTRY,
        ".buildkite/policy.yml": ConfigKind.POLICY,
    }
    registry = load_registry("source_file_dependencies: {engine: [omni/engine/]}", name="d.yml")

    def select(changes: ChangeSet) -> Selection:
        return judge([pipeline], changes, policy=POLICY, registry=registry, tree=TREE, configs=configs)

    selection = select(ChangeSet.of([listed]))
    assert selection.running(FILE) == running
    assert all("no base to compare" in v.because for v in selection.verdicts if v.runs)
    assert select(compared(listed)).running(FILE) == set()


MIXED = """
    steps:
      - {label: declared, command: make, key: d, source_file_dependencies: [omni/]}
      - wait
      - block: Ship?
      - {trigger: other, source_file_dependencies: [docs/]}
      - group: ":x: E2E Test"
        depends_on: build
        steps:
          - label: e2e
            command: make
            mirror_hardwares: l4_1
            timeout_in_minutes: 31
            depends_on: [d, {step: extra}]
            source_file_dependencies: [omni/]
"""


def test_camunda6631_unknown_changes_run_everything_and_say_why() -> None:
    selection = judge([load(MIXED)], ChangeSet.unknown("no merge base"), policy=POLICY, tree=TREE)
    assert all(verdict.runs for verdict in selection.verdicts)
    assert {v.because for v in selection.verdicts if not v.is_gate} == {
        "the changes are unknown: no merge base"
    }
    diff = selection.document()["diff"]
    assert diff == {"known": False, "base": None, "head": None, "reason": "no merge base", "files": []}


def test_gates_go_with_the_steps_around_them() -> None:
    nothing = judge([load(MIXED)], compared("README.md"), policy=POLICY, tree=TREE)
    assert nothing.running(FILE) == set()
    docs = judge([load(MIXED)], compared("docs/index.md"), policy=POLICY, tree=TREE)
    assert docs.running(FILE) == {"ship", "other"}


def test_everything_and_end_to_end_need_no_diff() -> None:
    def select(mode: Mode) -> Selection:
        return judge([load(MIXED)], compared(), policy=POLICY, tree=TREE, mode=mode)

    assert len(select(Mode.ALL).running(FILE)) == 5
    e2e = select(Mode.E2E)
    assert e2e.running(FILE) == {"e2e", "ship"}
    assert {v.because for v in e2e.verdicts if not v.is_gate} == {
        "in a group named 'E2E Test'",
        "not in a group named 'E2E Test'",
    }


def test_selection_json_is_the_frozen_format() -> None:
    selection = judge(
        [load(MIXED)],
        compared("omni/hooks.py"),
        policy=POLICY,
        tree=TREE,
        labels=("ready",),
        config_from="base",
    )
    document = json.loads(selection.to_json())
    assert list(document) == ["schema", "diff", "config", "mode", "labels", "only", "steps"]
    assert document["config"] == {"policy": POLICY.digest, "from": "base"}
    assert (document["schema"], document["mode"], document["labels"], document["only"]) == (
        1,
        "diff",
        ["ready"],
        [],
    )
    assert document["diff"] == {
        "known": True,
        "base": "b" * 40,
        "head": "a" * 40,
        "reason": None,
        "files": ["omni/hooks.py"],
    }
    assert [step["key"] for step in document["steps"]] == ["d", "other", "e2e"]
    assert document["steps"][2] == {
        "file": FILE,
        "key": "e2e",
        "label": "e2e",
        "group": ":x: E2E Test",
        "runs": True,
        "because": "omni/hooks.py changed, under omni/",
        "rule": "prefix",
        "preset": "l4_1",
        "cards": None,
        "jobs": 1,
        "minutes": 31,
        "minutes_from": "timeout",
        "depends_on": ["build", "d", "extra"],
    }


def test_a_verdict_cannot_exist_without_a_reason() -> None:
    for because in ("", "  "):
        with pytest.raises(ValueError, match="needs a reason"):
            Verdict(
                file=FILE, step="a", label="a", group=None, runs=False, because=because, rule=Rule.DEFAULT
            )


def test_the_registry_concerns_a_step_that_only_its_group_gates() -> None:
    registry = load_registry(
        "source_file_dependencies: {source_filter_fallback: [tests/helpers/]}", name="dependencies.yml"
    )
    gated = load(
        "steps: [{group: G, source_file_dependencies: [docs/], steps: [{label: One, command: make}]}]"
    )
    found = verdict(gated, ["tests/helpers/a.py"], registry=registry)
    assert (found.runs, found.rule) == (True, Rule.RUN_ALL)
    assert found.because == "tests/helpers/a.py changed, which the registry counts for every step"


def test_a_test_path_in_a_submodule_changes_when_the_submodule_moves() -> None:
    links = Links(submodules=frozenset({"third_party/suite"}))

    def judged(command: str) -> Verdict:
        pipeline = one_step("[omni/]", command)
        (found,) = judge(
            [pipeline], compared("third_party/suite"), policy=POLICY, tree=TREE, links=links
        ).verdicts
        return found

    found = judged("pytest third_party/suite/tests/test_x.py")
    assert (found.runs, found.rule) == (True, Rule.TEST)
    assert (
        found.because
        == "third_party/suite changed, the submodule that holds third_party/suite/tests/test_x.py"
    )
    assert not judged("pytest tests/unit/test_b.py").runs
