"""S1 to S8, S10, S12, each with what it must find and what it must let pass."""

from __future__ import annotations

from typing import Any

import pytest

from omni_ci.checks.findings import Finding, Level
from omni_ci.checks.validation import require_valid, validate
from omni_ci.rendering.sdk import through_sdk
from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_hardware.errors import CheckError

STEP = {"label": "x", "commands": ["true"], "timeout_in_minutes": 5}


def found(*steps: Any, known: tuple[str, ...] = ()) -> list[Finding]:
    return list(validate({"steps": list(steps)}, known_keys=known))


def step(**changes: Any) -> dict[str, Any]:
    return {**STEP, **changes}


PARALLEL = "pytest --num-shards=$$BUILDKITE_PARALLEL_JOB_COUNT --shard-id=$$BUILDKITE_PARALLEL_JOB"
WRONG = [
    ("S1", {"label": "x"}, "says nothing to do"),
    ("S1", {"label": "x", "commands": [], "timeout_in_minutes": 1}, "its commands are empty"),
    ("S2", step(key="a b"), "must be 1 to 100 of"),
    ("S2", step(key="0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"), "looks like a UUID"),
    ("S3", step(depends_on="bild"), "depends_on 'bild', a key no pipeline file has"),
    ("S3", step(depends_on=[{"step": "bild"}]), "depends_on 'bild'"),
    ("S4", {"group": "G", "steps": []}, "the group is empty"),
    ("S5", step(mirror_hardwares="l4_1"), "must not reach Buildkite"),
    ("S5", step(source_file_dependencies=["a/"]), "must not reach Buildkite"),
    ("S5", step(agent_pool="mi300_1"), "must not reach Buildkite"),
    ("S5", step(tests={"paths": ["a"]}), "must not reach Buildkite"),
    ("S6", step(**{"if": True}), "`if: true` is no text"),
    ("S6", step(**{"if": "build.branch = 'main'"}), "cannot be read"),
    ("S7", step(timeout_in_minutes=0), "write whole minutes, 1 or more"),
    ("S7", step(timeout_in_minutes=-3), "write whole minutes, 1 or more"),
    ("S8", step(parallelism=0), "parallelism is 0"),
    ("S8", step(parallelism=3, commands=["pytest tests"]), "every job would run all of its tests"),
    ("S8", step(commands=[PARALLEL]), "without `parallelism:`"),
    ("S9", step(parallelism=2, commands=[PARALLEL.replace("$$", "$")]), "is replaced at upload"),
    ("S10", step(commands=["pytest"], retry={"automatic": True}), "`automatic: true` repeats failed tests"),
    ("S10", step(commands=["pytest"], retry={"automatic": [{"exit_status": 1}]}), "retries exit status 1"),
    (
        "S10",
        step(commands=["pytest"], retry={"automatic": [{"exit_status": [1, 2]}]}),
        "retries exit status 1",
    ),
    ("S10", step(commands=["pytest"], retry={"automatic": [{"exit_status": "*"}]}), "retries exit status 1"),
    ("S10", step(commands=["pytest"], retry={"automatic": {"limit": 2}}), "retries exit status 1"),
    (
        "S10",
        step(retry={"automatic": [{"exit_status": -1, "limit": 99}]}),
        "retry limit 99 is not within 1…10",
    ),
]
WHOLE = "pytest tests"
WRONG += [
    ("S10", step(commands=["pytest"], retry={"automatic": [rule]}), "retries exit status 1")
    for rule in (
        {"signal_reason": "none"},
        {"exit_status": "*", "signal_reason": "*"},
        {"exit_status": "*", "signal_reason": "none"},
        {"signal": "*"},
        {"exit_status": "*", "signal": "*"},
        {"exit_status": "1"},
        {"exit_status": 1, "signal_reason": "none"},
    )
]
WRONG += [
    ("S8", step(parallelism=2, commands=commands), "yet `pytest tests` does not use $$BUILDKITE_PARALLEL_JOB")
    for commands in (
        ["echo $$BUILDKITE_PARALLEL_JOB", WHOLE],
        [PARALLEL, WHOLE],
        ["export N=$$BUILDKITE_PARALLEL_JOB", WHOLE],
    )
]
WRONG += [
    ("S1", step(concurrency=1), "has `concurrency` without `concurrency_group`"),
    ("S1", step(concurrency_group="g"), "has `concurrency_group` without `concurrency`"),
    ("S1", step(commands=["echo \0"]), "hold a NUL character"),
    ("S1", step(matrix=[]), "its matrix has no value to make a job of"),
    ("S1", step(matrix={"setup": {"a": ["x"], "b": []}}), "its matrix has no value to make a job of"),
    ("S1", step(env={"": "1"}), "env: '' is no name of a variable"),
    ("S1", step(env={"A B": "1"}), "env: 'A B' is no name of a variable"),
]
WRONG += [("S1", step(command="a"), "has `command` and `commands`, of which one is not run")]
FINE = [
    step(parallelism=2, commands=["export N=$$BUILDKITE_PARALLEL_JOB", 'pytest tests --shard-id "$$N"']),
    step(parallelism=2, commands=["N=--shard-id=$$BUILDKITE_PARALLEL_JOB; pytest tests $${N}"]),
    step(parallelism=2, commands=["export PYTEST_ADDOPTS='--shard auto'", WHOLE]),
    step(parallelism=2, commands=[WHOLE], env={"PYTEST_ADDOPTS": "--shard auto"}),
    step(commands=["pytest"], retry={"automatic": [{"exit_status": 1, "signal_reason": "agent_stop"}]}),
    step(commands=["pytest"], retry={"automatic": [{"signal": "SIGKILL"}]}),
    step(parallelism=2, commands=[PARALLEL]),
    step(parallelism=2, commands=["pytest --shard auto"]),
    step(parallelism=2, commands=["make lint"]),
    step(commands=["pytest --shard-id=$${BUILDKITE_PARALLEL_JOB:-0}"]),
    step(
        commands=["pytest"],
        retry={"automatic": [{"exit_status": -1, "limit": 1}, {"signal_reason": "agent_stop"}]},
    ),
    step(commands=["pytest"], retry={"automatic": [{"exit_status": "*", "signal_reason": "agent_stop"}]}),
    step(commands=["make"], retry={"automatic": True}),
    step(commands=["pytest"], retry={"automatic": False, "manual": True}),
    step(**{"if": 'build.env("NIGHTLY") == "1"'}),
    {"label": "x", "plugins": ["docker-compose#v5"], "timeout_in_minutes": 1},
    "wait",
    {"wait": None},
    {"block": "Release?"},
    {"trigger": "other"},
    {"group": None, "steps": [STEP]},
    {"group": "G", "steps": ["wait", STEP]},
    step(soft_fail=False),
]


@pytest.mark.parametrize(("code", "wrong", "message"), WRONG)
def test_what_is_wrong_is_found_and_named(code: str, wrong: Any, message: str) -> None:
    hits = [finding for finding in found(wrong) if finding.code == code and message in finding.message]
    assert hits, [str(finding) for finding in found(wrong)]
    assert hits[0].level is Level.ERROR


@pytest.mark.parametrize("fine", FINE)
def test_what_is_fine_passes(fine: Any) -> None:
    assert [str(finding) for finding in found(fine)] == []


@pytest.mark.parametrize(
    "wrong", [{"label": "x", "timeout_in_minutes": 5}, {}, {"key": "a", "env": {"A": "1"}}]
)
def test_pipeline_schema68_a_step_that_does_nothing_passes_the_schema_and_not_us(wrong: Any) -> None:
    """Buildkite's schema lets a step without a command pass; its server answers "Step is missing a type"."""
    findings = found(wrong)
    assert "S1" in {finding.code for finding in findings}
    assert "SCHEMA" not in {finding.code for finding in findings}


def test_agent695_a_bool_stays_a_bool_and_is_no_condition() -> None:
    """The server refuses `if: true`, and `soft_fail: "false"` would be true."""
    (refused,) = [one for one in found(step(**{"if": True})) if one.code == "S6"]
    assert "`if: true` is no text; quote it or take it out" in refused.message
    kept = through_sdk({"steps": [step(soft_fail=False)]}, {})
    assert "soft_fail: false" in to_yaml(kept)
    with pytest.raises(LoadError, match="if must be a condition in quotes"):
        load_pipeline("steps:\n  - {label: x, command: a, if: true}\n", name="a.yml")


def test_a_missing_timeout_is_a_notice() -> None:
    (finding,) = found({"label": "x", "commands": ["true"]})
    assert (finding.code, finding.level) == ("S7", Level.NOTICE)
    assert finding.message.endswith(
        "no timeout_in_minutes: a hang holds its machine for good"
    )  # cards or not
    require_valid([finding])


def test_a_key_taken_twice_names_both_places() -> None:
    origins = {(0,): "a.yml:3", (1, 0): "a.yml:9"}
    document = {"steps": [step(key="a"), {"group": "G", "steps": [step(key="a")]}]}
    (finding,) = validate(document, origins=origins)
    assert str(finding) == "a.yml:9: S2 step 'x': key 'a' is already taken at a.yml:3"


def test_dependencies_may_stand_in_this_file_or_in_another() -> None:
    assert found(step(key="build"), step(depends_on="build")) == []
    assert found(step(depends_on="upload-ready"), known=("upload-ready",)) == []
    (finding,) = found(step(key="build"), step(depends_on="biuld"))
    assert "(did you mean 'build'?)" in finding.message


def test_a_key_that_many_steps_wait_for_in_vain_is_said_once_with_their_places() -> None:
    origins = {(index,): f"a.yml:{index}" for index in range(6)}
    document = {"steps": [step(depends_on=["gone", "gone"])] * 6}
    (finding,) = validate(document, origins=origins)
    assert finding.where == "a.yml:0"
    assert "(as do 5 more steps: a.yml:1, a.yml:2, a.yml:3, …)" in finding.message


@pytest.mark.parametrize(
    ("steps", "circle"),
    [
        ([step(key="a", depends_on="a")], "a → a"),
        ([step(key="a", depends_on=["b", "x"]), step(key="b", depends_on="a"), step(key="x")], "→ a"),
        ([{"group": "G", "key": "g", "steps": [step(key="a", depends_on="g")]}], "→ g"),
        ([{"group": "G", "depends_on": "b", "steps": [step(key="a")]}, step(key="b", depends_on="a")], "→ b"),
    ],
)
def test_what_waits_for_itself_is_found(steps: list[Any], circle: str) -> None:
    (finding,) = found(*steps)
    assert finding.code == "S3"
    assert "waits for itself" in finding.message
    assert circle in finding.message


def test_a_chain_is_no_circle() -> None:
    group = {
        "group": "G",
        "key": "g",
        "depends_on": "a",
        "steps": [step(key="b"), step(key="c", depends_on="b")],
    }
    assert found(step(key="a"), group, step(key="d", depends_on=["g", "a"])) == []


def test_a_thousand_keys_that_do_not_exist_are_found_in_no_time() -> None:
    document = {"steps": [step(key=f"key-{index}", depends_on=f"kez-{index}") for index in range(1000)]}
    findings = [finding for finding in validate(document) if finding.code == "S3"]
    assert len(findings) == 1000
    assert sum("did you mean" in finding.message for finding in findings) == 20


def test_five_hundred_steps_are_the_limit() -> None:
    assert found(*[STEP] * 500) == []
    (finding,) = found(*[STEP] * 501)
    assert finding.code == "S12"
    assert "501 jobs" in finding.message


@pytest.mark.parametrize(
    ("many", "count"),
    [
        ({"parallelism": 10, "commands": [PARALLEL]}, 510),
        ({"matrix": ["a", "b", "c"]}, 503),
        ({"matrix": {"setup": {"os": ["a", "b"], "arch": ["c", "d"]}}}, 504),
    ],
)
def test_every_job_of_a_step_counts_towards_the_limit(many: dict[str, Any], count: int) -> None:
    findings = found(*[STEP] * 500, step(**many))
    assert [finding.code for finding in findings] == ["S12"]
    assert f"{count} jobs, each shard counted" in findings[0].message
    assert found(*[STEP] * 490, step(parallelism=10, commands=[PARALLEL])) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (step(timeout_in_minute=3), "unknown key 'timeout_in_minute' (did you mean 'timeout_in_minutes'?)"),
        (step(timeout_in_minutes="soon"), "timeout_in_minutes: 'soon' is not of type 'integer'"),
        (step(retry={"automatic": [{"limit": 99, "exit_status": -1}]}), "99"),
        (step(key="a b"), "key"),
        ({"group": "G", "stepz": [], "steps": [STEP]}, "unknown key 'stepz' (did you mean 'steps'?)"),
        ("wiat", "'wiat' is no step"),
        ({"wait": None, "commands": ["x"]}, "unknown key 'commands'"),
    ],
)
def test_the_schema_speaks_of_one_step_in_words(wrong: Any, message: str) -> None:
    said = [finding.message for finding in found(wrong) if finding.code == "SCHEMA"]
    assert any(message in one for one in said), said


def test_an_unknown_key_of_the_whole_pipeline_is_found() -> None:
    findings = validate({"agnets": {}, "steps": [STEP]})
    assert [finding.message for finding in findings] == ["unknown key 'agnets' (did you mean 'agents'?)"]
    (placed,) = validate({"agnets": {}, "steps": [STEP]}, origins={(0,): "a.yml:3"})
    assert placed.where == "a.yml"


def test_every_error_is_said_at_once_and_ends_with_three() -> None:
    findings = found(step(key="a b", timeout_in_minutes=0), step(depends_on="nothing"))
    with pytest.raises(
        CheckError, match=r"problems in the generated pipeline; it is not handed on"
    ) as refused:
        require_valid(findings)
    assert refused.value.exit_code == 3
    assert len(str(refused.value).splitlines()) == 1 + len(findings)
