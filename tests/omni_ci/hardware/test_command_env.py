"""Commands as an environment variable: render, interpolate as the agent does, read as the runner does."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.hardware.command_env import as_environment, commands_as_written
from omni_ci.interpolation import InterpolationError, interpolate

# Whatever a pull request's author can put into a build, and what breaks JSON or a shell.
HOSTILE = {
    "BUILDKITE_BRANCH": "a\"b'; rm -rf $HOME \\n",
    "BUILDKITE_MESSAGE": 'line one\nline "two" $(id) ${X} \\',
    "BUILDKITE_COMMIT": "0123456789abcdef",
    "FOO": 'x"y\\z',
    "EMPTY": "",
}
PIECES = [
    "$FOO", "${FOO}", "${FOO:-d}", "${NOPE:-x}", "${NOPE-'}", "$$X", "\\$X", "$$", "\\\\", "\\", "$?", "$(id)", "$'a'", "$1",
    "$BUILDKITE_BRANCH ", "${BUILDKITE_MESSAGE}", "${", "${X[@]}",
    "'", '"', "`", "#", " # ", "\n", " ", "a", "é", "😀", "<<E", "{", "}", ",", "[", "\t", "\x01",
]  # fmt: skip


def carried(commands: list[str], env: dict[str, str]) -> list[str]:
    """Return the commands as the pod's shell gets them: the list read, and what it evaluates put in its place."""
    job = {name: interpolate(value, env) for name, value in as_environment(commands).items()}
    items = json.loads(job["OMNI_COMMANDS"])
    found = [re.fullmatch(r'eval "\$(OMNI_COMMAND_\d+)"', item) for item in items]
    return [job[one[1]] if one else item for one, item in zip(found, items, strict=True)]


@pytest.mark.parametrize(
    ("command", "list_of_one"),
    [
        ("pytest -v", '["pytest -v"]'),
        ("exit $$EXIT", '["exit $$EXIT"]'),
        (r"exit \$EXIT", '["exit $$EXIT"]'),
        ("echo $?", '["echo $$?"]'),
        ("x=$(id)", '["x=$$(id)"]'),
        (r"echo \\$$X", r'["echo \\\\$$X"]'),
        ('pytest -m "a and b"', r'["pytest -m \"a and b\""]'),
        ("one\ntwo", r'["one\ntwo"]'),
        ("echo $BUILDKITE_BRANCH", '["echo $$BUILDKITE_BRANCH"]'),
        ("echo ${BUILDKITE_COMMIT:0:7}", '["echo $${BUILDKITE_COMMIT:0:7}"]'),
        ("echo 'é'", "[\"echo 'é'\"]"),
    ],
)
def test_nothing_in_the_list_is_left_to_upload(command: str, list_of_one: str) -> None:
    assert as_environment([command]) == {"OMNI_COMMANDS": list_of_one}


@pytest.mark.parametrize(
    "command",
    [
        "pytest $FOO",
        "pytest ${MARK:-x}",
        # the shell would not expand these, and they mean what upload puts there
        "python -c 'print(\"$BUILDKITE_BRANCH\")'",
        "cat <<'E'\n$BUILDKITE_BRANCH\nE",
        "echo $'a' $BUILDKITE_BRANCH",
        "echo \"$(echo '$BUILDKITE_BRANCH')\"",
        # not a variable that a job has
        "echo ${BUILDKITE_BRANCH:-$FOO}",
        "echo $BUILDKITE_BRANCHé",
    ],
)
def test_what_upload_has_to_replace_travels_apart_as_it_is_written(command: str) -> None:
    made = as_environment(["true", command])
    assert made == {"OMNI_COMMANDS": '["true",\n "eval \\"$$OMNI_COMMAND_2\\""]', "OMNI_COMMAND_2": command}


def test_the_quoting_is_followed_to_where_a_variable_stands() -> None:
    for command in (
        "echo 'a' \"b\" $BUILDKITE_BRANCH",
        'echo "it\'s $BUILDKITE_BRANCH"',
        "# don't\necho $BUILDKITE_BRANCH",
        "echo it\\'s $BUILDKITE_BRANCH",
        "echo 'a\\' $BUILDKITE_BRANCH",
        "echo a#b'c' $BUILDKITE_BRANCH",
    ):
        assert "eval" not in as_environment([command])["OMNI_COMMANDS"], command
    for command in ("echo 'a\\' 'b $BUILDKITE_BRANCH'", 'echo "a" \'b "$BUILDKITE_BRANCH"\''):
        assert "eval" in as_environment([command])["OMNI_COMMANDS"], command


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), max_size=3))
@settings(max_examples=300)
def test_the_pod_gets_what_a_plain_step_would_have_run(commands: list[str]) -> None:
    # a variable that the job has is left to it: here it stands for itself on both sides
    itself = {"BUILDKITE_BRANCH": "$BUILDKITE_BRANCH", "BUILDKITE_MESSAGE": "${BUILDKITE_MESSAGE}"}
    try:
        wanted = [interpolate(one, HOSTILE | itself) for one in commands]
    except InterpolationError:
        with pytest.raises(InterpolationError):
            carried(commands, HOSTILE)
        return
    assert carried(commands, HOSTILE | itself) == wanted
    assert len(carried(commands, HOSTILE)) == len(commands)


@pytest.mark.parametrize(
    "command",
    [
        "printf '%s|' $BUILDKITE_COMMIT ${BUILDKITE_COMMIT:0:7} \"${BUILDKITE_NOT_SET:-none}\"",
        'X=1; printf \'%s|\' "$$X" "$${X:-2}" \'$$X\' "\\$X" "$?"',
        "printf '%s|' \"$FOO_SAFE\" '$FOO_SAFE' '$BUILDKITE_COMMIT'",
        "printf '%s|' \"a\\\\b\" 'a\\b' 'é' '\"'",
        "for i in 1 2; do\n  printf '%s|' \"$$i\" # it's one\ndone",
        "cat <<'END'\n$BUILDKITE_COMMIT $$X\nEND",
        "printf '%s|' \"$(printf '%s' '$BUILDKITE_COMMIT')\" `printf x`",
        "printf '%s|' $$$BUILDKITE_COMMIT",
        "printf '%s|' $$${BUILDKITE_NOT_SET:-BUILDKITE_COMMIT}",
        "${BUILDKITE_NOT_SET:-echo a; echo b}",
        "echo ${BUILDKITE_NOT_SET:-a | tr a b}",
        "A${BUILDKITE_COMMIT}=1; printf '%s|' \"$$A0123456789abcdef\"",
    ],
)
def test_a_real_shell_prints_the_same_from_the_list_as_from_the_step(command: str) -> None:
    upload = {"BUILDKITE_COMMIT": "0123456789abcdef", "FOO_SAFE": "a b"}
    job = {"PATH": os.environ["PATH"], "BUILDKITE_COMMIT": upload["BUILDKITE_COMMIT"]}
    made = {name: interpolate(value, upload) for name, value in as_environment([command]).items()}
    (item,) = json.loads(made["OMNI_COMMANDS"])
    printed = [
        subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True).stdout
        for script, env in ((interpolate(command, upload), job), (item, {**job, **made}))
    ]
    assert printed[0] == printed[1] != ""


def test_monorepo_diff26_a_hostile_branch_name_neither_breaks_the_list_nor_runs() -> None:
    """A `$` or a quote in a commit's message broke generated pipelines."""
    command = 'printf "%s" "$BUILDKITE_BRANCH" "$BUILDKITE_MESSAGE"'
    made = {name: interpolate(value, HOSTILE) for name, value in as_environment([command]).items()}
    (item,) = json.loads(made["OMNI_COMMANDS"])
    env = {
        "PATH": os.environ["PATH"],
        **{name: HOSTILE[name] for name in HOSTILE if name.startswith("BUILDKITE")},
    }
    done = subprocess.run(["bash", "-c", item], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == HOSTILE["BUILDKITE_BRANCH"] + HOSTILE["BUILDKITE_MESSAGE"]


@given(st.lists(st.text(), max_size=4))
@settings(max_examples=50)
def test_the_commands_can_be_read_back(commands: list[str]) -> None:
    found = commands_as_written({"command": "bash run.sh", "env": as_environment(commands)})
    assert len(found) == len(commands)
    assert all(found[i] == one for i, one in enumerate(commands) if "$" not in one)


def test_a_plain_steps_commands_are_read_where_they_stand() -> None:
    assert commands_as_written({"command": "a"}) == ["a"]
    assert commands_as_written({"commands": ["a", "b"], "env": {"OMNI_COMMANDS": "no json"}}) == ["a", "b"]
    assert commands_as_written({"label": "x", "env": None}) == []
    assert commands_as_written({"env": as_environment(["pytest $FOO", "x"])}) == ["pytest $FOO", "x"]


def test_older_runners_get_one_text() -> None:
    assert as_environment(["a", "echo $$X"], as_text=True) == {
        "OMNI_COMMANDS": '["a",\n "echo $$X"]',
        "TEST_COMMANDS": "a\necho $$X",
    }
