from __future__ import annotations

import pytest

from omni_ci.errors import GuardError
from omni_ci.runner.given import given_by


def test_omni_commands_are_the_items():
    given = given_by({"OMNI_COMMANDS": '["cd tests", "pytest -m \'a and b\'\\n# c"]'})
    assert given.commands == ("cd tests", "pytest -m 'a and b'\n# c")
    assert (given.source, given.notes) == ("OMNI_COMMANDS", ())


def test_test_commands_alone_are_one_unit_and_that_is_said():
    given = given_by({"TEST_COMMANDS": "cd x\npytest"})
    assert given.commands == ("cd x\npytest",)
    assert "no status for each command" in given.notes[0]


def test_test_commands_beside_items_are_not_used_and_that_is_said():
    given = given_by({"TEST_COMMANDS": "x", "OMNI_COMMANDS": '["y"]'})
    assert given.commands == ("y",)
    assert given.notes == ("TEST_COMMANDS is not used: OMNI_COMMANDS holds the commands one by one",)


@pytest.mark.parametrize(
    ("words", "command"),
    [(("pytest -k 'a b' && x",), "pytest -k 'a b' && x"), (("pytest", "-k", "a b"), "pytest -k 'a b'")],
)
def test_the_command_line_wins_one_word_is_shell_several_are_a_command(words, command):
    given = given_by({"OMNI_COMMANDS": '["y"]'}, words)
    assert given.commands == (command,)
    assert "OMNI_COMMANDS is not used" in given.notes[0]


def test_a_command_that_travels_in_a_variable_of_its_own_is_the_item():
    environ = {"OMNI_COMMANDS": '["a", "eval \\"$OMNI_COMMAND_2\\""]', "OMNI_COMMAND_2": "pytest 'x y'"}
    assert given_by(environ).commands == ("a", "pytest 'x y'")


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "nothing to run: neither OMNI_COMMANDS nor TEST_COMMANDS is set"),
        ({"OMNI_COMMANDS": ""}, "OMNI_COMMANDS is not JSON: Expecting value at character 1"),
        ({"OMNI_COMMANDS": "[1]"}, "not a JSON array of strings"),
        ({"OMNI_COMMANDS": '"pytest"'}, "not a JSON array of strings"),
        ({"OMNI_COMMANDS": "[" * 100_000}, "OMNI_COMMANDS is not JSON: too deep"),
        ({"OMNI_COMMANDS": '["a\\u0000b"]'}, "NUL"),
        ({"OMNI_COMMANDS": '["a\\ud800b"]'}, r"OMNI_COMMANDS holds '\ud800', which no command can (utf-8)"),
        ({"OMNI_COMMANDS": "[]"}, "OMNI_COMMANDS holds no command"),
        ({"OMNI_COMMANDS": '["", " # only a comment"]'}, "OMNI_COMMANDS holds no command"),
        ({"TEST_COMMANDS": "\n\n"}, "TEST_COMMANDS holds no command"),
        ({"OMNI_COMMANDS": '["eval \\"$OMNI_COMMAND_2\\""]'}, "OMNI_COMMAND_2, which is not set"),
    ],
)
def test_nothing_to_run_is_a_guard(environ, said):
    with pytest.raises(GuardError) as caught:
        given_by(environ)
    assert said in str(caught.value)
    assert caught.value.exit_code == 125


@pytest.mark.parametrize(
    ("written", "item"),
    [
        ("pytest -m 'a and b' \"c\"", "pytest -m 'a and b' \"c\""),
        (r"echo \$HOME $$HOME \\ $?", r"echo $HOME $HOME \\ $?"),
        ("pytest --shard=$$BUILDKITE_PARALLEL_JOB", "pytest --shard=$BUILDKITE_PARALLEL_JOB"),
        ("echo $NAME", 'echo a "quoted" \\ name'),
        ("cat <<'END'\n$$x\n$NAME\nEND", "cat <<'END'\n$x\na \"quoted\" \\ name\nEND"),
    ],
)
def test_what_a_preset_with_a_runner_sends_arrives_as_it_was_written(written, item):
    from omni_ci.hardware.command_env import as_environment
    from omni_ci.interpolation import interpolate

    upload = {"NAME": 'a "quoted" \\ name'}
    job = {name: interpolate(value, upload) for name, value in as_environment(["true", written]).items()}
    assert given_by(job).commands == ("true", item)
