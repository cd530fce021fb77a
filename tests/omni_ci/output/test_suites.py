"""Two files of one build in one upload: what they share is said once, and what they cannot share is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.output.suites import joined
from omni_ci.rendering.steps import Rendered
from omni_ci.yaml.loading import load_pipeline
from omni_hardware.errors import InputError

READY, MERGE = ".buildkite/amd/test-ready.yml", ".buildkite/amd/test-merge.yml"


def step(label: str, *commands: str, **more: Any) -> dict[str, Any]:
    return {"label": label, "commands": list(commands or ("pytest tests",)), **more}


def suite(name: str, *steps: Any, **top: Any) -> Any:
    """A file that says *top* in its first lines, and *steps* as they were rendered."""
    env = "".join(f"  {key}: {value!r}\n" for key, value in top.get("env", {}).items())
    text = (f"env:\n{env}" if env else "") + "steps:\n  - {label: x, commands: [make]}\n"
    origins: dict[tuple[int, ...], str] = {}
    for index, item in enumerate(steps):
        origins[(index,)] = f"{name}:{index + 1}"
        for inner in range(len(item.get("steps", ())) if isinstance(item, dict) else 0):
            origins[(index, inner)] = f"{name}:{index + 1}{inner}"
    rendered = Rendered(document={**top, "steps": list(steps)}, origins=origins, presets={(0,): "mi300_1"})
    return load_pipeline(text, name=name), rendered


def labels(rendered: Rendered) -> list[str]:
    return [inner["label"] for item in rendered.document["steps"] for inner in item.get("steps", [item])]


def test_files_follow_each_other_with_their_places() -> None:
    made = joined([suite(READY, step("a")), suite(MERGE, {"group": "g", "steps": [step("b", "make")]})])
    assert labels(made) == ["a", "b"]
    assert made.origins == {(0,): f"{READY}:1", (1,): f"{MERGE}:1", (1, 0): f"{MERGE}:10"}
    assert made.notices == ()


def test_a_job_that_an_earlier_file_has_is_left_out_and_counted_by_its_jobs() -> None:
    made = joined(
        [
            suite(READY, step("Ready", "cd tests", "pytest a", parallelism=4, timeout_in_minutes=5)),
            suite(
                MERGE,
                step("Merge", "cd tests\npytest a", parallelism=4, timeout_in_minutes=9),
                step("Other", "pytest b"),
            ),
        ]
    )
    assert labels(made) == ["Ready", "Other"]
    assert made.notices == (
        (
            f"{MERGE}: 1 step (4 jobs) does what a step of an earlier file does, and is left out: "
            f"'Merge' ({MERGE}:1) is 'Ready' ({READY}:1)"
        ),
    )


@pytest.mark.parametrize(
    "other",
    [
        step("b", "pytest tests -x"),
        step("b", "pytest 'tests' x"),
        step("b", env={"A": "2"}),
        step("b", agents={"queue": "mi300_2"}),
        step("b", image="other"),
        step("b", plugins=[{"docker#v5": {"image": "i"}}]),
        step("b", parallelism=3),
        step("b", soft_fail=False),
        step("b", artifact_paths=["x"]),
        step("b", depends_on=["build"]),
        step("b", **{"if": "build.branch == 'main'"}),
        {"group": "g", "if": "true", "steps": [step("b")]},
        {"group": "g", "key": "g", "steps": [step("b")]},
        {"group": "g", "steps": [step("b"), "wait", step("c", "make")]},
    ],
)
def test_what_differs_in_anything_that_matters_is_another_job(other: Any) -> None:
    first = suite(READY, step("a", env={"A": "1"}, agents={"queue": "mi300_1"}, soft_fail=True))
    same = {"env": {"A": "1"}, "agents": {"queue": "mi300_1"}, "soft_fail": True}
    other = {**same, **other} if "label" in other else {
        **other, "steps": [{**same, **one} if isinstance(one, dict) and one["label"] == "b" else one for one in other["steps"]],
    }  # fmt: skip
    assert joined([first, suite(MERGE, other)]).notices == ()


def test_commands_are_compared_as_the_shell_reads_them() -> None:
    one, two = step("a", 'pytest "a b"'), step("b", "pytest a b")
    assert joined([suite(READY, one), suite(MERGE, two)]).notices == ()
    assert (
        joined([suite(READY, step("a", 'echo "$$X"')), suite(MERGE, step("b", "echo '$$X'"))]).notices == ()
    )
    here = "cat <<E\na\n\nE"
    assert joined([suite(READY, step("a", here)), suite(MERGE, step("b", "cat <<E\na\nE"))]).notices == ()


def test_two_equal_steps_of_one_file_both_stay() -> None:
    made = joined([suite(READY, step("a"), step("b")), suite(MERGE, step("c", "make"))])
    assert labels(made) == ["a", "b", "c"]


def test_who_waited_for_a_step_that_is_left_out_waits_for_the_one_that_stays() -> None:
    build = ("docker build .",)
    made = joined(
        [
            suite(READY, step("a", *build, key="image")),
            suite(
                MERGE,
                step("b", *build, key="wheel"),
                step("c", "make", depends_on=["wheel"]),
                {
                    "group": "g",
                    "depends_on": "wheel",
                    "steps": [step("d", "x", depends_on=[{"step": "wheel"}])],
                },
            ),
        ]
    )
    _, c, group = made.document["steps"]
    assert c["depends_on"] == ["image"]
    assert (group["depends_on"], group["steps"][0]["depends_on"]) == (["image"], [{"step": "image"}])
    assert "which a step that waits for 'wheel' waits for as 'image'" in made.notices[0]


def test_a_step_that_stays_takes_the_key_of_the_one_left_out() -> None:
    made = joined(
        [suite(READY, step("a")), suite(MERGE, step("b", key="b"), step("c", "make", depends_on=["b"]))]
    )
    assert [one.get("key") for one in made.document["steps"]] == ["b", None]
    assert made.document["steps"][1]["depends_on"] == ["b"]


def test_an_environment_that_differs_is_refused_with_both_places() -> None:
    suites = [
        suite(READY, step("a"), env={"B": "1", "A": "1"}),
        suite(MERGE, step("b", "make"), env={"A": "2"}),
    ]
    with pytest.raises(InputError) as caught:
        joined(suites)
    assert str(caught.value) == (
        f"{MERGE}:1: env A is not what {READY}:1 says, and both go into one upload; write the same in both, or give it to "
        "the steps"
    )


def test_an_environment_of_one_file_is_that_of_all_and_said() -> None:
    made = joined(
        [suite(READY, step("a"), env={"A": "1"}), suite(MERGE, step("b", "make"), env={"A": "1", "B": "2"})]
    )
    assert made.document["env"] == {"A": "1", "B": "2"}
    assert made.notices == (f"{MERGE}:1: env B is also that of the steps of {READY}",)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (suite(MERGE, step("b"), agents={"queue": "x"}), "`agents:` is not what"),
        (
            suite(MERGE, "wait", step("b")),
            f"{MERGE}:1: several files go into one upload, and this orders steps",
        ),
        (suite(MERGE, {"block": "Go?"}, step("b")), "use depends_on"),
    ],
)
def test_what_would_hold_for_the_other_file_too_is_refused(second: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        joined([suite(READY, step("a")), second])
    assert message in str(caught.value)


def test_a_file_of_which_nothing_runs_says_nothing_for_the_others() -> None:
    empty = suite(MERGE, env={"A": "2"})
    made = joined([suite(READY, step("a"), "wait", step("b"), env={"A": "1"}), empty])
    assert made.document["env"] == {"A": "1"}
    assert joined([empty, empty]).is_empty


def test_a_key_of_two_jobs_of_which_one_is_left_out_is_refused() -> None:
    suites = [
        suite(READY, step("a", key="image")),
        suite(MERGE, step("b", key="build")),
        suite("third.yml", step("c", "make", key="build"), step("d", "x", depends_on=["build"])),
    ]
    with pytest.raises(
        InputError, match="key 'build' is that of a step which is left out, for 'image' does the same"
    ):
        joined(suites)


@st.composite
def files(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Two or three files whose steps do one of four things and wait for earlier ones of their own file."""
    found: list[list[dict[str, Any]]] = []
    for file in range(draw(st.integers(2, 3))):
        steps: list[dict[str, Any]] = []
        for at in range(draw(st.integers(1, 5))):
            waits = sorted(draw(st.sets(st.integers(0, at - 1), max_size=2))) if at else []
            keyed = {"key": f"k{file}{at}"} if waits or draw(st.booleans()) else {}
            own = [one["key"] for one in (steps[index] for index in waits) if "key" in one]
            depends = {"depends_on": own} if own else {}
            steps.append(step(f"s{file}{at}", f"make {draw(st.integers(0, 3))}", **keyed, **depends))
        found.append(steps)
    return found


@settings(max_examples=100)
@given(files())
def test_every_step_is_there_or_named_and_nothing_waits_for_what_is_not(
    given_: list[list[dict[str, Any]]],
) -> None:
    made = joined([suite(f"f{number}.yml", *steps) for number, steps in enumerate(given_)])
    kept = labels(made)
    assert len(kept) == len(set(kept))
    said = " ".join(made.notices)
    for number, steps in enumerate(given_):
        for index, one in enumerate(steps):
            assert (one["label"] in kept) != (f"'{one['label']}' (f{number}.yml:{index + 1}) is" in said)
    assert {one["commands"][0] for one in made.document["steps"]} == {
        one["commands"][0] for steps in given_ for one in steps
    }
    known = {one.get("key") for one in made.document["steps"]}
    assert all(key in known for one in made.document["steps"] for key in one.get("depends_on", ()))


@pytest.mark.parametrize(
    ("ready", "merge"),
    [
        ({"env": {"TEST_COMMANDS": "pytest a"}}, {"env": {"TEST_COMMANDS": "pytest b"}}),
        ({"env": {"OMNI_COMMANDS": "pytest a"}}, {"env": {"OMNI_COMMANDS": "pytest b"}}),
        (
            {"commands": ["for m in a b; do pytest $$m; done"]},
            {"commands": ["for m in ab; do pytest $$m; done"]},
        ),
        (
            {"commands": ['case $$x in "a b") pytest;; esac']},
            {"commands": ['case $$x in "ab") pytest;; esac']},
        ),
        ({"commands": ["cat <<E\na \nE"]}, {"commands": ["cat <<E\na\nE"]}),
        ({"commands": ['pytest "a  \nb"']}, {"commands": ['pytest "a\nb"']}),
    ],
)
def test_jobs_that_may_do_different_things_both_run(ready: dict[str, Any], merge: dict[str, Any]) -> None:
    runner = {"commands": ["bash run-amd-test.sh"]}
    made = joined(
        [
            suite(READY, {"label": "Ready", **runner, **ready}),
            suite(MERGE, {"label": "Merge", **runner, **merge}),
        ]
    )
    assert labels(made) == ["Ready", "Merge"]
