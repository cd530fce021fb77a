"""A step's `tests:`: the shell it generates, run by a real shell, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.equipping import Equipment
from omni_ci.hardware.pods import PodRules, Pods
from omni_ci.hardware.presets import Presets
from omni_ci.interpolation import interpolate
from omni_ci.rendering.steps import render
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import PipelineFile, Step
from omni_ci.yaml.tests_block import Suite, command_of


def load(step: str) -> Step:
    text = f"steps:\n  - label: x\n{textwrap.indent(textwrap.dedent(step), '    ')}"
    (loaded,) = load_pipeline(text, name="p.yml").steps
    assert isinstance(loaded, Step)
    return loaded


def problems(step: str) -> list[str]:
    with pytest.raises(LoadError) as caught:
        load(step)
    return str(caught.value).splitlines()


def words_of(command: str) -> list[str]:
    """Return the words a real shell makes of *command* after Buildkite's interpolation."""
    script = interpolate(command, {}).replace("omni-ci", "omni_ci", 1)
    program = script.split(" ", 1)[0]
    printing = f"{program}() {{ printf '%s\\0' {program} \"$@\"; }}\n{script}"
    done = subprocess.run(["bash", "-c", printing], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def test_a_block_stands_for_one_command() -> None:
    step = load("""\
        tests:
          paths: [tests/diffusion, "tests/e2e/test_a.py::test_b[x-$y]"]
          marks: core_model and cuda and L4 and cards_1
          keyword: svc or precomputed
          run_level: core_model
          strict: true
          args: [-v, --deselect, tests/diffusion/test_c.py]
        """)
    assert step.commands == (
        (
            "pytest tests/diffusion 'tests/e2e/test_a.py::test_b[x-$$y]' -m 'core_model and cuda and L4 and cards_1' "
            "-k 'svc or precomputed' --run-level core_model --omni-strict -v --deselect tests/diffusion/test_c.py"
        ),
    )
    assert step.written() == {"label": "x", "commands": list(step.commands)}


def test_the_tests_run_after_the_commands_in_their_order() -> None:
    step = load("""\
        command: export A=1
        tests:
          - {paths: tests/a.py}
          - {paths: tests/b.py, marks: not slow}
        """)
    assert step.commands == ("export A=1", "pytest tests/a.py", "pytest tests/b.py -m 'not slow'")


def test_shards_make_as_many_jobs() -> None:
    step = load("tests: {paths: tests, shards: 3}")
    assert step.written() == {"label": "x", "commands": ["pytest tests --shard auto"], "parallelism": 3}


def test_a_coverage_split_names_both_halves() -> None:
    step = load("""\
        tests:
          cov: {model_id: z_image, offline: tests/off.py, online: [tests/on.py, tests/on2.py]}
          marks: advanced_model and cuda
          run_level: advanced_model
        """)
    assert step.commands == (
        (
            "omni-ci cov split --model-id z_image --offline tests/off.py --online tests/on.py --online tests/on2.py "
            "-- -m 'advanced_model and cuda' --run-level advanced_model"
        ),
    )
    assert load("tests: {cov: {model_id: m, online: a}}").commands == (
        "omni-ci cov split --model-id m --online a",
    )


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("{}", "steps[0].tests is empty; name `paths:` or remove it"),
        ("[]", "steps[0].tests is empty; name `paths:` or remove it"),
        ("3", "steps[0].tests must be a list, not a number (3)"),
        ("{marks: cpu}", "steps[0].tests: names no tests; give it `paths:`, or `cov:` with its own"),
        ("{path: a}", "steps[0].tests.path: unknown key (did you mean 'paths'?)"),
        (
            "{paths: [a, ../b]}",
            "p.yml:3:24: steps[0].tests.paths[1]: '../b' must be a path from the repository's",
        ),
        ("{paths: /a}", "'/a' must be a path from the repository's root"),
        ("{paths: a//b}", "'a//b' must be a path from the repository's root"),
        (
            "{paths: 'tests/*.py'}",
            "'tests/*.py' is a pattern or a variable, which is quoted and never opened",
        ),
        ("{paths: '$DIR/a.py'}", "'$DIR/a.py' is a pattern or a variable"),
        ("{paths: -x}", "'-x' would be read as an option; put options into `args`"),
        ("{paths: ''}", "'' names no file or folder"),
        ("{paths: ' a'}", "' a' has blanks or control characters around or in it"),
        ("{paths: 3}", "steps[0].tests.paths must be a list, not a number (3)"),
        ("{paths: [3]}", "steps[0].tests.paths[0] must be text, not a number (3)"),
        ("{paths: a, marks: cpu and}", "steps[0].tests.marks: 'cpu and': column 8: expected a marker's name"),
        (
            "{paths: a, marks: ''}",
            "marks: is empty, which selects nothing; leave it out to select everything",
        ),
        ("{paths: a, keyword: (}", "steps[0].tests.keyword: '(': column 2: expected a marker's name"),
        ("{paths: a, run_level: ''}", "steps[0].tests.run_level"),
        ("{paths: a, shards: 1}", "steps[0].tests.shards is 1; it must be at least 2"),
        ("{paths: a, strict: yes}", "steps[0].tests.strict must be true or false, not text ('yes')"),
        ("{paths: a, args: [-m, x]}", "steps[0].tests.args[0]: '-m' is what `marks:` says; write it there"),
        ("{paths: a, args: -mx}", "'-mx' is what `marks:` says"),
        ("{paths: a, args: -k=x}", "'-k=x' is what `keyword:` says"),
        ("{paths: a, args: --run-level=x}", "'--run-level=x' is what `run_level:` says"),
        ("{paths: a, args: [--shard, auto]}", "'--shard' is what `shards:` says"),
        ("{paths: a, args: -s -v}", "'-s -v' is several words, and goes as one; write ['-s', '-v']"),
        ("{paths: a, args: ['']}", "'' is empty or has control characters in it"),
        ("{paths: a, cov: {model_id: m, online: b}}", "has `paths` and `cov`, which names its own"),
        ("{shards: 2, cov: {model_id: m, online: b}}", "each shard would write the same report; keep one"),
        ("{cov: {model_id: m}}", "steps[0].tests.cov: names neither `offline` nor `online` paths"),
        ("{cov: {model_id: Z-Image, online: b}}", "'Z-Image' names report files: only a-z, 0-9 and _"),
        ("{cov: {online: b}}", "steps[0].tests.cov.model_id is missing"),
        ("{cov: {model_id: m, ofline: b, online: a}}", "cov.ofline: unknown key (did you mean 'offline'?)"),
    ],
)
def test_a_block_that_cannot_be_meant_is_named_at_its_place(block: str, said: str) -> None:
    (found,) = problems(f"tests: {block}")
    assert found.startswith("p.yml:3:")
    assert said in found


def test_every_problem_of_a_block_is_reported_at_once() -> None:
    found = problems("tests: {paths: [a, /b], marks: (, strict: 1, shards: 0, args: [-k]}")
    assert len(found) == 5


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            "tests: [{paths: a, shards: 2}, {paths: b, shards: 3}]",
            "steps[0]: shards of 2 and 3 in one step, which has one number of jobs; write one",
        ),
        ("parallelism: 4\ntests: {paths: a, shards: 2}", "steps[0]: shards of 2 and 4 in one step"),
        (
            "tests: [{paths: a, shards: 2}, {paths: b}]",
            "steps[0].tests: each of the step's 2 jobs would run all of these; give them `shards:` too",
        ),
        ("parallelism: 4\ntests: {paths: a}", "each of the step's 4 jobs would run all of these"),
    ],
)
def test_jobs_that_would_repeat_or_lose_tests_are_refused(step: str, said: str) -> None:
    (found,) = problems(step)
    assert said in found


def test_the_same_number_of_jobs_twice_is_one() -> None:
    assert load("parallelism: 2\ntests: {paths: a, shards: 2}").parallelism == 2


def test_a_wait_has_no_tests() -> None:
    with pytest.raises(LoadError, match="a wait step has no key 'tests'"):
        load_pipeline("steps: [{wait: '', tests: {paths: a}}]", name="p.yml")


def test_a_step_generates_once_however_often_it_is_validated() -> None:
    step = Step.model_validate({"label": "x", "tests": {"paths": "a", "shards": 2}})
    again = PipelineFile(steps=(step,)).steps[0]
    assert again == step
    assert step.commands == ("pytest a --shard auto",)
    assert PipelineFile.model_validate({"steps": [step]}).steps[0] == step


def test_nothing_of_it_reaches_buildkite() -> None:
    no_presets = Equipment(
        presets=Presets(file="presets.yml", by_name={}),
        pods=Pods({}, PodRules(secrets={}, infra_retry=[])),
    )
    text = "steps: [{label: x, tests: {paths: a, shards: 2}}]"
    made = render(load_pipeline(text, name="p.yml"), no_presets)
    assert made.document["steps"] == [
        {"label": "x", "commands": ["pytest a --shard auto"], "parallelism": 2},
    ]


HOSTILE = st.text("ab$\\'\"`!&;|<>(){}[]*? ~#%é", min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(HOSTILE, HOSTILE)
def test_what_was_written_is_what_pytest_gets(node: str, value: str) -> None:
    """Whatever a node id or an option holds passes the interpolation and the shell unchanged."""
    suite = Suite.model_validate({"paths": f"tests/a.py::t[{node}x]", "args": [f"--o={value}"]})
    assert words_of(command_of(suite)) == ["pytest", suite.paths[0], *suite.args]


def test_quotes_and_dollars_in_a_split_arrive_too() -> None:
    suite = Suite.model_validate(
        {
            "cov": {"model_id": "m", "offline": "a.py::t[$x's]"},
            "args": ["--o=\\$HOME"],
            "marks": "cpu and (L4)",
        }
    )
    assert words_of(command_of(suite)) == [
        "omni_ci",
        *("cov", "split", "--model-id", "m", "--offline", "a.py::t[$x's]", "--", "-m", "cpu and (L4)"),
        "--o=\\$HOME",
    ]


def test_a_block_survives_json() -> None:
    document = {"steps": [{"tests": {"paths": ["tests/a.py::t[$x]"]}}]}
    (step,) = load_pipeline(json.dumps(document), name="p.yml").steps
    assert isinstance(step, Step)
    assert step.commands == ("pytest 'tests/a.py::t[$$x]'",)
