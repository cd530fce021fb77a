"""S9: what upload would refuse, empty or give away, found before it happens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.checks.findings import Level
from omni_ci.checks.validation import validate
from omni_ci.interpolation import interpolate, variables
from omni_ci.policy import default_policy

STEP = {"label": "x", "commands": ["true"], "timeout_in_minutes": 5}


def said(step=None, *, top=None, **changes):
    """Return what S9 says of one step, without the step's name."""
    document = {**(top or {}), "steps": [step or {**STEP, **changes}]}
    found = validate(
        document, origins={(0,): "a.yml:3"}, policy=default_policy(), environment=["GIVEN", "HOME"]
    )
    return [
        (str(one.level), one.where, one.message.removeprefix("step 'x': "))
        for one in found
        if one.code == "S9"
    ]


def commands(*lines):
    return said(commands=list(lines))


def test_vllm_omni4734_a_variable_that_the_commands_set_is_replaced_at_upload():
    """`$EXTRA` was interpolated away: the upload ran without `--e2e`, and nobody saw it."""
    script = 'EXTRA=""\nif [ "${NIGHTLY:-}" = "1" ]; then EXTRA="--e2e"; fi\nupload $EXTRA test-ready.yml'
    assert commands(script) == [
        (
            "error",
            "a.yml:3",
            "commands: `$EXTRA` is replaced at upload, before the commands have set EXTRA; write `$$EXTRA`",
        )
    ]
    assert commands(script.replace("$EXTRA", "$$EXTRA")) == []
    assert commands(script.replace("$EXTRA", "\\$EXTRA")) == []


@pytest.mark.parametrize(
    "line",
    [
        "export OUT=a; echo $OUT",
        "for OUT in a b; do echo ${OUT}; done",
        "read -r OUT; echo $OUT",
        "OUT=(a b); echo $OUT",
        "bash -c 'OUT=1; echo $OUT'",
        "OUT=1 run $OUT",
        "PATH=$PATH:/x",
    ],
)
def test_however_the_commands_set_it(line):
    ((level, _, message),) = commands(line)
    assert level == "error"
    assert "before the commands have set" in message


def test_it_may_be_set_in_one_command_and_used_in_another():
    ((level, _, _),) = commands("OUT=1", "echo $OUT")
    assert level == "error"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo ${X[@]}", "upload refuses `${X[@]}`: Expected an operator, got [; write `$${X[@]}`"),
        ("echo ${#X}", "upload refuses `${#X}`: Expected identifier to start with a letter, got #"),
        ("echo ${X%.py} b", "upload refuses `${X%.py} b`: Expected an operator, got %"),
        ("echo ${X:+y}", "Unable to parse offset"),
        ("echo ${", "Expected identifier to start with a letter"),
    ],
)
def test_agent715_what_upload_refuses_is_an_error_in_its_own_words(text, message):
    """The whole upload fails on one such text, so it is found before."""
    ((level, where, found),) = commands(text)
    assert (level, where) == ("error", "a.yml:3")
    assert message in found
    assert commands(text.replace("$", "$$")) == []


def test_agent715_what_older_agents_refuse_is_a_notice():
    """`$?` and `$0` pass today."""
    found = commands("x; exit $?", "bash $0")
    assert [level for level, _, _ in found] == ["notice", "notice"]
    assert found[0][2].startswith(
        "commands: `$?` is an error to older agents (buildkite/agent#715); `$$?` is fine"
    )


def test_agent927_an_unknown_variable_is_empty_at_upload_and_a_notice():
    """Upload replaces what it does not know by nothing, silently."""
    sentence = (
        "`$SCRATCH` is empty unless SCRATCH is set at upload; write `$$SCRATCH` if the shell shall see it"
    )
    assert commands("rm -rf $SCRATCH/x") == [("notice", "a.yml:3", f"commands: {sentence}")]


@pytest.mark.parametrize(
    "line",
    [
        "echo $BUILDKITE_COMMIT ${BUILDKITE_BRANCH}",
        'test "${NIGHTLY:-}" = 1',  # what starts a tier
        "test $NIGHTLY$WEEKLY = 1",
        "echo $GIVEN",
        "echo ${OTHER:-default} ${OTHER-}",
        "X=$(date); echo $$X $${X[@]} \\$X",
        "echo costs 5$",
        "echo '$$HF_TOKEN'",
    ],
)
def test_what_is_fine_is_not_talked_about(line):
    assert commands(line) == []


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        ("x $BUILDKITE_PARALLEL_JOB", "error", "when it is empty: nobody is a parallel job yet"),
        ("x ${BUILDKITE_PARALLEL_JOB_COUNT:-1}", "error", "when it is empty: nobody is a parallel job yet"),
        ("x $BUILDKITE_STEP_ID", "notice", "replaced at upload by that of the uploading job"),
        ("x ${PIPESTATUS}", "error", "only the job's shell knows it"),
        ("cd $HOME", "notice", "replaced at upload by that of the uploading machine"),
        ("x ${OUT?must be set}", "notice", "stops the upload where OUT is not in its environment"),
        ("OUT=${OUT:-a}", "notice", "before the commands have set OUT"),
    ],
)
def test_variables_of_other_kinds(line, level, message):
    ((found, _, sentence),) = commands(line)
    assert (found, message in sentence) == (level, True), sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"OUT": "a"}},
        {
            "plugins": [
                {"kubernetes": {"podSpec": {"containers": [{"env": [{"name": "OUT", "value": "a"}]}]}}}
            ]
        },
        {"plugins": [{"docker#v5": {"image": "i", "environment": ["OUT=a"]}}]},
    ],
)
def test_what_a_step_sets_for_its_job_is_not_there_at_upload(changes):
    ((level, _, message),) = said(commands=["echo $OUT"], **changes)
    assert level == "error"
    assert "when the OUT that this step sets for its job is not there; write `$$OUT`" in message


def test_the_environment_of_the_file_is_there_at_upload_from_its_line_on():
    """The agent reads the document's `env` first, one after the other, and interpolates with it."""
    assert said(commands=["echo $OUT"], top={"env": {"OUT": "a"}}) == []
    assert said(top={"env": {"A": "1", "B": "$A"}}) == []
    ((level, where, message),) = said(top={"env": {"B": "$A", "A": "1"}})
    assert (level, where) == ("notice", "a.yml")
    assert message.startswith("env.B: `$A` is empty unless A is set at upload")


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ({**STEP, "env": {"A": "$OUT"}}, "env.A"),
        ({**STEP, "env": {"$OUT": "1"}}, "env.$OUT"),
        ({**STEP, "if": "build.branch == '$OUT'"}, "if"),
        ({**STEP, "agents": {"queue": "$OUT"}}, "agents.queue"),
        ({**STEP, "plugins": [{"x#v1": {"a": [{"b": "$OUT"}]}}]}, "plugins.x#v1.a.b"),
        ({"block": "$OUT"}, "block"),
        ({"trigger": "t", "build": {"env": {"A": "$OUT"}}}, "build.env.A"),
        ({"group": "$OUT", "steps": [STEP]}, "group"),
    ],
)
def test_every_text_of_the_document_is_looked_at_keys_too(step, place):
    ((_, _, message),) = said(step)
    assert f"{place}: `$OUT` is empty unless" in message


def test_commands_are_judged_as_upload_joins_them_and_where_a_runner_reads_them():
    assert commands("echo ${OUT:-a", "b}") == []
    carried = {"env": {"OMNI_COMMANDS": json.dumps(["OUT=1", "echo $OUT"])}, "commands": ["bash run.sh"]}
    ((level, _, message),) = said(**carried)
    assert level == "error"
    assert message.startswith(
        "env.OMNI_COMMANDS: `$OUT` is replaced at upload, before the commands have set OUT"
    )


@pytest.mark.parametrize(
    "written", ["$HF_TOKEN", "${HF_TOKEN}", "${HF_TOKEN:-}", "${A:-$AWS_SECRET_ACCESS_KEY}"]
)
@pytest.mark.parametrize("place", ["env", "label", "commands"])
def test_a_secret_that_upload_would_write_into_the_pipeline_is_an_error(written, place):
    changes = {"env": {"HF_TOKEN": written}} if place == "env" else {place: written}
    document = {"steps": [{**STEP, **changes}]}
    messages = [one.message for one in validate(document) if one.level is Level.ERROR]
    assert any("puts the value of a secret into the uploaded pipeline" in one for one in messages)
    changes = json.loads(json.dumps(changes).replace("$", "$$"))
    assert not [one for one in validate({"steps": [{**STEP, **changes}]}) if one.level is Level.ERROR]


def test_the_advice_about_a_secret_fits_its_place():
    ((_, _, in_commands),) = commands("login -p $HF_TOKEN")
    assert in_commands.endswith("write `$$HF_TOKEN`")
    ((_, _, in_env),) = said(env={"HF_TOKEN": "${HF_TOKEN}"})
    assert in_env.endswith(
        "take it out, and let the job get it from `secrets:` of its preset or of the policy"
    )


@settings(max_examples=100)
@given(st.text(alphabet="$\\{}ABé:-?'\"( \n", max_size=30))
def test_the_check_and_the_simulator_agree(text):
    """Where nothing is said, upload with an empty environment changes no variable."""
    document = {"steps": [{**STEP, "label": text or "x"}]}
    findings = [one for one in validate(document) if one.code == "S9"]
    if not findings:
        assert all(f"{name}:-" in text or f"{name}-" in text for name in variables(text))
        interpolate(text, {})
