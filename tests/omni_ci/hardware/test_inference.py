"""Hardware read from `-m`: each row of the table, what cannot be read, and what was asked for instead."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.inference import Fitted, asking, fitted, require_presets
from omni_ci.hardware.presets import Presets, load_presets
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import Step
from omni_ci.yaml.tests_block import Suite, command_of
from omni_hardware.errors import InputError

PRESETS = """\
skus:
  l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 2, 4], queue: q, resource: nvidia.com/gpu}
  h100: {platform: cuda, sku: H100, template: k8s-spec, cards: [1, 2, 4], queue: q, resource: nvidia.com/gpu}
  b200: {platform: cuda, sku: B200, template: k8s-spec, cards: [1, 2], queue: q, resource: nvidia.com/gpu}
  mi300: {platform: rocm, sku: MI300, template: k8s-patch, cards: [1, 2], queue: q, resource: amd.com/gpu}
fragments:
  a3_npu_2: {agents: {queue: ascend-a3}}
"""


def presets() -> Presets:
    return load_presets(PRESETS, name="presets.yml")


def fit(*steps: dict[str, Any], platform: str | None = "cuda", mirror_hw: str | None = None) -> Fitted:
    pipeline = load_pipeline(json.dumps({"steps": steps}, indent=1), name="p.yml")
    return fitted(pipeline, presets(), platform=platform, mirror_hw=mirror_hw)


def preset_of(*commands: str, platform: str | None = "cuda", mirror_hw: str | None = None) -> str | None:
    found = fit({"label": "x", "commands": list(commands)}, platform=platform, mirror_hw=mirror_hw)
    (step,) = found.pipeline.steps
    assert isinstance(step, Step)
    assert not found.unfit
    return step.mirror_hardwares


def reason(*commands: str, platform: str | None = "cuda", mirror_hw: str | None = None) -> str:
    found = fit({"label": "x", "commands": list(commands)}, platform=platform, mirror_hw=mirror_hw)
    (step,) = found.pipeline.steps
    assert isinstance(step, Step)
    assert step.mirror_hardwares is None
    return found.unfit["x"]


def problems(*steps: dict[str, Any]) -> list[str]:
    with pytest.raises(LoadError) as caught:
        fit(*steps)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("expression", "preset"),
    [
        ("core_model and cuda and H100 and cards_2", "h100_2"),
        ("core_model and L4 and cards_1", "l4_1"),
        ("(H100 or L4) and cards_1", "h100_1"),
        ("(A100 or L4) and cards_1", "l4_1"),
        ("L4 and (cards_1 or cards_2)", "l4_2"),
        ("H100 and not cards_2", "h100_4"),
        ("L4 and cards_1 and not H100", "l4_1"),
        ("core_model and cpu", None),
        ("core_model and cpu and not (cards_2 or cards_4)", None),
        ("not (H100 or L4)", None),
    ],
)
def test_the_preset_that_marks_lead_to(expression: str, preset: str | None) -> None:
    assert preset_of(f"pytest tests -m {shlex.quote(expression)}") == preset


def test_all_runs_of_a_step_count_together() -> None:
    assert preset_of("pytest a -m 'L4 and cards_4'", "pytest b -m 'H100 and cards_1'") == "h100_4"


def test_what_was_inferred_is_said() -> None:
    found = fit({"label": "x", "command": "pytest -m 'H100 and cards_2'"})
    assert found.notices == ("p.yml:3: step 'x': cards_2 → 'h100_2' (from -m)",)
    found = fit({"label": "x", "command": "pytest -m 'core_model and cuda'"})
    assert found.notices == (
        "p.yml:3: step 'x': -m names cuda but no SKU and no number of cards: a job for the default queue",
    )


def test_a_hundred_steps_are_a_notice_a_preset() -> None:
    steps = [{"label": f"s{at}", "command": "pytest a -m 'L4 and cards_1'"} for at in range(100)]
    steps.insert(1, {"label": "two", "command": "pytest b -m 'H100 and cards_2'"})
    steps.append({"label": "all", "command": "pytest a -m 'L4 and not cards_1'"})
    steps.append({"label": "most", "command": "pytest a -m 'L4 and cards_4'"})
    assert fit(*steps).notices == (
        (
            "p.yml:3: 100 steps: cards_1 → 'l4_1' (from -m): 's0' (line 3), 's1' (line 11), 's2' (line 15) "
            "and 97 more"
        ),
        "p.yml:7: step 'two': cards_2 → 'h100_2' (from -m)",
        (
            "p.yml:407: 2 steps: the most cards of L4 → 'l4_4' (from -m) or cards_4 → 'l4_4' (from -m): "
            "'all' (line 407) and 'most' (line 411)"
        ),
    )


@pytest.mark.parametrize(
    "hardware", [{"agents": {"queue": "cpu"}}, {"plugins": ["docker#v5.2.0"]}, {"image": "i"}]
)
def test_hardware_of_its_own_stays(hardware: dict[str, Any]) -> None:
    found = fit({"label": "x", "command": "pytest -m 'H100 and cards_9'", **hardware}, mirror_hw="b200")
    (step,) = found.pipeline.steps
    assert isinstance(step, Step)
    assert (step.mirror_hardwares, found.unfit, found.notices) == (None, {}, ())


def test_an_explicit_preset_is_taken_and_its_marks_are_not_read() -> None:
    found = fit({"label": "x", "command": "pytest -m 'H100 and cards_9 and ('", "mirror_hardwares": "l4_1"})
    (step,) = found.pipeline.steps
    assert isinstance(step, Step)
    assert step.mirror_hardwares == "l4_1"


def test_every_preset_that_does_not_exist_is_named_at_once() -> None:
    steps = [
        {"label": name, "command": "a", "mirror_hardwares": name} for name in ("l4_3", "l4_1", "a5_npu_2")
    ]
    pipeline = fit(*steps, platform=None).pipeline
    with pytest.raises(InputError) as caught:
        require_presets(pipeline, presets())
    assert str(caught.value).splitlines() == [
        "p.yml:3: step 'l4_3': unknown preset 'l4_3' (did you mean 'l4_4'?); presets are in presets.yml",
        "p.yml:13: step 'a5_npu_2': unknown preset 'a5_npu_2' (did you mean 'a3_npu_2'?); presets are in presets.yml",
    ]


def test_steps_inside_groups_are_fitted_and_keep_their_names_and_places() -> None:
    found = fit(
        {"group": "g", "steps": [{"label": "One", "command": "pytest -m 'L4 and cards_1'"}, "wait"]},
        {"label": "One", "command": "true"},
    )
    leaves = [leaf for _, leaf in found.pipeline.leaves()]
    assert [leaf.ident for leaf in leaves] == ["one", "wait", "one-2"]
    first = leaves[0]
    assert isinstance(first, Step)
    assert (first.mirror_hardwares, first.where.line) == ("l4_1", 6)
    assert first.written() == {"label": "One", "commands": ["pytest -m 'L4 and cards_1'"]}


# The ways in which a regular expression over the shell misread these.
@pytest.mark.parametrize(
    ("command", "preset"),
    [
        ('pytest -m"H100 and cards_1"', "h100_1"),
        ("pytest -m='H100 and cards_1'", "h100_1"),
        ('pytest tests -m \\\n  "H100 and cards_1"', "h100_1"),
        ('# pytest -m "B200 and cards_2"\npytest -m "L4 and cards_1"', "l4_1"),
        ("python -m pytest -m 'L4 and cards_2'", "l4_2"),
        ("python -m pytest tests", None),
        ("pytest -m 'cpu and not (H100 or L4)'", None),
        ("timeout 40m bash -c \"\n  export A=1\n  pytest -s -v t.py -m 'L4 and cards_1'\n\"", "l4_1"),
        ("run_cov_split.sh --model-id m --offline a -- -m 'H100 and cards_2'", "h100_2"),
        ("echo 'pytest -m \"H100 and cards_1\"'", None),
    ],
)
def test_the_shell_is_read_as_a_shell_reads_it(command: str, preset: str | None) -> None:
    assert preset_of(command) == preset


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('pytest -m "$$MARK"', '-m "$MARK" is known only at run time'),
        ('pytest -m "\\$MARK"', '-m "$MARK" is known only at run time'),
        ("pytest -m H100 and cards_1", "`-m H100 …` has no quotes around its expression"),
        ("pytest -m 'H100 and (cards_1'", "-m 'H100 and (cards_1': column 18: expected 'and', 'or' or ')'"),
    ],
)
def test_marks_that_cannot_be_read_are_refused(command: str, said: str) -> None:
    (line,) = problems({"label": "x", "command": command})
    assert line.startswith("p.yml:3:3: step 'x': ")
    assert said in line
    assert line.endswith("; its hardware is read from -m: mend it, or name `mirror_hardwares:`")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "ARGS=\"-m 'H100 and cards_2'\"; pytest $$ARGS tests",
            "$ARGS gives pytest `-m 'H100 and cards_2'` at run time",
        ),
        (
            "export PYTEST_ADDOPTS=\"-m 'H100 and cards_2'\"; pytest tests",
            "PYTEST_ADDOPTS gives pytest `-m 'H100 and cards_2'` beside its own words",
        ),
        (
            "export PYTEST_ADDOPTS='-m $$MARK'\npytest tests",
            "PYTEST_ADDOPTS gives pytest `-m $MARK` beside its own words",
        ),
        (
            "T='pytest -m \"H100 and cards_1\"'; $$T tests",
            '$T runs `pytest -m "H100 and cards_1"` at run time',
        ),
        (
            "tox -e py311 -- -m 'H100 and cards_1'",
            "`tox -e py311 -- -m H100 and cards_1` is not seen to be pytest, and names devices",
        ),
        (
            'test() { pytest "$$@"; }; go() { pytest "$$@"; }; go -m H100',
            "`go -m H100` is not seen to be pytest, and names devices",
        ),
        (
            "pytest -m cpu a; bash run_tests.sh 'H100 and cards_1'",
            "`bash run_tests.sh H100 and cards_1` is not seen to be pytest, and names devices",
        ),
    ],
)
def test_marks_that_reach_pytest_unseen_are_refused(script: str, said: str) -> None:
    (line,) = problems({"label": "x", "command": script})
    assert (
        line
        == f"p.yml:3:3: step 'x': {said}; its hardware is read from -m: mend it, or name `mirror_hardwares:`"
    )
    assert (
        preset_of(*script.replace("H100", "x").replace("cards_", "c").replace("$$MARK", "x").split("\n"))
        is None
    )


def test_marks_in_the_environment_of_a_step_or_of_the_file_are_refused() -> None:
    (line,) = problems(
        {"label": "x", "command": "pytest a", "env": {"PYTEST_ADDOPTS": "-m 'L4 and cards_1'"}}
    )
    assert "step 'x': PYTEST_ADDOPTS gives pytest `-m 'L4 and cards_1'` beside its own words" in line
    text = '{"env": {"ARGS": "-m cards_2"}, "steps": [{"label": "x", "command": "pytest a $$ARGS"}]}'
    with pytest.raises(LoadError, match=r"\$ARGS gives pytest `-m cards_2` at run time"):
        fitted(load_pipeline(text, name="p.yml"), presets(), platform="cuda")


@pytest.mark.parametrize(
    ("script", "preset"),
    [
        ("T=tests/H100.py; pytest $$T -m 'L4 and cards_1'", "l4_1"),
        ("export GPU=H100; echo $$GPU cards_2; pytest tests -m 'L4 and cards_1'", "l4_1"),
        ("for f in tests/H100_*.py; do pytest $$f -m 'L4 and cards_1'; done", "l4_1"),
        ("export PYTEST_ADDOPTS='-m H100'; pytest tests -m 'L4 and cards_1'", "l4_1"),
        ("nvidia-smi | grep -m 1 H100; pytest tests -m 'L4 and cards_1'", "l4_1"),
        ("git commit -m 'H100 and cards_1'; pytest tests", None),
        ("python -m bench --device H100", None),
        ("bash -c 'pytest tests -m \"L4 and cards_1\"'", "l4_1"),
    ],
)
def test_a_device_that_is_only_spoken_of_refuses_nothing(script: str, preset: str | None) -> None:
    assert preset_of(script) == preset


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("pytest $$PYTEST_ARGS tests", "$PYTEST_ARGS"),
        ("pytest @args.txt", "@args.txt"),
        ("pytest $(cat args.txt)", "$(cat args.txt)"),
        ("ARGS=`cat args.txt`; pytest $${ARGS:-tests}", "${ARGS:-tests}"),
    ],
)
def test_arguments_known_only_at_run_time_are_told_where_they_leave_a_cpu_job(script: str, word: str) -> None:
    assert fit({"label": "x", "command": script}).notices == (
        f"p.yml:3: step 'x': pytest gets no -m but `{word}`, known only at run time: a job for the default queue",
    )
    assert fit({"label": "x", "command": script, "agents": {"queue": "cpu"}}).notices == ()


def test_words_that_are_known_are_not_told() -> None:
    script = "A=tests; pytest $$A; for f in a b; do pytest $$f; done; pytest $$B"
    assert fit({"label": "x", "command": script, "env": {"B": "c"}}).notices == ()


def test_an_unreadable_keyword_leaves_the_marks_as_they_are() -> None:
    assert preset_of('pytest -k "$$CASE" -m "L4 and cards_1"') == "l4_1"


def test_every_step_that_is_wrong_is_named_at_its_line() -> None:
    found = problems(
        {"label": "none", "command": "pytest -m H100"},
        {"label": "many", "command": "pytest -m 'H100 and cards_8'"},
        {"label": "odd", "command": "pytest -m 'H100 and (cards_17 or cards_two)'"},
        {"label": "fine", "command": "pytest -m 'H100 and cards_1'"},
    )
    assert found == [
        "p.yml:3:3: step 'none': -m names H100 but no number of cards; add `and cards_1`",
        (
            "p.yml:7:3: step 'many': -m asks for cards_8 of H100, and presets.yml has no preset 'h100_8' "
            "(known: h100_1, h100_2, h100_4)"
        ),
        "p.yml:11:3: step 'odd': -m names cards_17, which no marker is called (known: cards_1 to cards_16)",
        "p.yml:11:3: step 'odd': -m names cards_two, which no marker is called (known: cards_1 to cards_16)",
    ]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("A100 and cards_1", "its -m names A100, for which presets.yml has no cuda presets"),
        ("MI300 and cards_1", "its -m names MI300, for which presets.yml has no cuda presets"),
        ("B200 and cards_1", "its -m names B200, which runs on demand only (MIRROR_HW=b200)"),
        ("core_model and cards_2", "its -m names a number of cards but no SKU"),
    ],
)
def test_a_step_without_a_chip_is_left_out_with_the_reason(expression: str, said: str) -> None:
    assert reason(f"pytest -m '{expression}'") == said


def test_the_folders_platform_decides_which_skus_count() -> None:
    both = "pytest -m '(H100 or MI300) and cards_1'"
    assert preset_of(both) == "h100_1"
    assert preset_of(both, platform="rocm") == "mi300_1"
    assert preset_of(both, platform=None) == "h100_1"


def test_the_asked_chip_replaces_all_others() -> None:
    assert preset_of("pytest -m '(B200 or H100) and cards_2'", mirror_hw="b200") == "b200_2"
    assert reason("pytest -m 'H100 and cards_2'", mirror_hw="b200") == (
        "MIRROR_HW=b200, and its -m does not name B200"
    )
    assert preset_of("pytest -m 'core_model and cpu'", mirror_hw="b200") is None


def test_explicit_presets_of_other_chips_do_not_fit_and_other_platforms_do_not_care() -> None:
    steps = [
        {"label": name, "command": "a", "mirror_hardwares": name}
        for name in ("l4_1", "b200_1", "a3_npu_2", "mi300_1")
    ]
    assert fit(*steps, platform=None, mirror_hw="b200").unfit == {
        "l4_1": "MIRROR_HW=b200, and its preset 'l4_1' is L4"
    }


def test_a_chip_that_does_not_exist_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match=r"MIRROR_HW=b2000: .* \(did you mean 'b200'\?\)"):
        fit({"label": "x", "command": "pytest -m 'H100 and ('"}, mirror_hw="b2000")


def test_no_chip_asked_for_is_an_empty_variable_too() -> None:
    assert preset_of("pytest -m 'L4 and cards_1'", mirror_hw="") == "l4_1"


def test_the_words_of_a_tests_block_are_the_projects() -> None:
    found = problems(
        {"label": "x", "agents": ["q=c"], "tests": {"paths": "a", "marks": "core_modle", "run_level": "core"}}
    )
    assert found == [
        (
            "p.yml:10:5: tests.marks: 'core_modle': column 1: no marker is called 'core_modle' "
            "(did you mean 'core_model'?); a word of your own goes into [tool.omni] topics or marks, or into pytest's "
            "`markers`, of pyproject.toml"
        ),
        (
            "p.yml:11:5: tests.run_level: no level is called 'core' (known: core_model, advanced_model, full_model); "
            "a level of your own goes into [tool.omni] levels of pyproject.toml"
        ),
    ]


def test_marks_a_project_registers_itself_are_known_where_they_are_given() -> None:
    text = '{"steps": [{"command": "a", "agents": ["q=c"], "tests": {"paths": "a", "marks": "not process"}}]}'
    pipeline = load_pipeline(text, name="p.yml")
    assert fitted(pipeline, presets(), platform="cuda", more_marks={"process"}).unfit == {}
    with pytest.raises(LoadError, match="no marker is called 'process'"):
        fitted(pipeline, presets(), platform="cuda")


MARKS = st.sampled_from(["core_model", "cuda", "H100", "L4", "cards_1", "cards_2", "B200", "cpu"])
EXPRESSIONS = st.recursive(
    MARKS,
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda three: f"({' '.join(three)})"),
    ),
    max_leaves=6,
)


@settings(max_examples=50)
@given(EXPRESSIONS, st.booleans())
def test_a_tests_block_and_the_shell_it_stands_for_ask_for_the_same(expression: str, split: bool) -> None:
    where: dict[str, Any] = (
        {"cov": {"model_id": "m", "online": ["tests/b.py"]}} if split else {"paths": ["tests/a.py"]}
    )
    suite = Suite.model_validate({**where, "marks": expression, "args": ["-v"]})
    by_hand = asking([f"set -e\ntimeout 5m pytest tests -m '{expression}'"])
    assert asking([command_of(suite)]) == by_hand
