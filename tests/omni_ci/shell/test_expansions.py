"""What is left to the job's shell is what upload would have made: asked of a real bash, command by command."""

from __future__ import annotations

import json
import os
import subprocess
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.errors import GuardError
from omni_ci.hardware.command_env import as_environment
from omni_ci.interpolation import InterpolationError, interpolate
from omni_ci.runner.given import given_by

# What the uploading job and the job have; a value of one word, as the fuzz has no opinion on what a hostile one does.
OF_BOTH = {
    "BUILDKITE_BRANCH": "main",
    "BUILDKITE_COMMIT": "0123456789abcdef",
    "BUILDKITE_N": "3",
    "BUILDKITE_EMPTY": "",
    "BUILDKITE_KEYWORD": "if",
    "BUILDKITE_ASSIGNS": "A=1",
}
UPLOADED = {"FOO": "x y", "OP": "|"}
VARIABLES = [
    "$BUILDKITE_BRANCH", "${BUILDKITE_BRANCH}", "$BUILDKITE_N", "$BUILDKITE_EMPTY", "${BUILDKITE_EMPTY}", "$BUILDKITE_UNSET",
    "$BUILDKITE_KEYWORD", "$BUILDKITE_ASSIGNS", "${BUILDKITE_UNSET:-a b}", "${BUILDKITE_UNSET:-a; echo b}",
    "${BUILDKITE_EMPTY-d}", "${BUILDKITE_EMPTY:-d}", "${BUILDKITE_UNSET:-~}", "${BUILDKITE_UNSET:-a | cat}",
    "${BUILDKITE_UNSET:-'a'}", "${BUILDKITE_UNSET:-#c}", "${BUILDKITE_UNSET:-$FOO}", "${BUILDKITE_UNSET:-{a,b}}",
    "${BUILDKITE_COMMIT:0:7}", "${BUILDKITE_COMMIT:08}", "${BUILDKITE_COMMIT:010:3}",
]  # fmt: skip
SHELL = [
    "$FOO", "${FOO:-q}", "$OP", "$$", "\\$", "$$A", "\\$A", "$${A}", "$${A:-'b}", "$?", "$$?", "$(", "$$(", ")", "\\\\", "\\",
    "\\\n", "'", '"', "`", "#", " #", " # it's", "\n", " ", "; ", " && ", " || ", " | ", "(", "{", "}", "{a,", "{1..", "[[ ",
    " ]]", "((", "))", "=", "+=", "A=", "echo ", "printf '%s|' ", "false", "true", "set -u; ", "set -e; ", "IFS=a; ",
    "BUILDKITE_BRANCH=z; ", "unset BUILDKITE_N; ", "for i in ", "; do ", "; done", "if ", "; then ", "; fi", "case ", " in ",
    " a) ", ";; esac", "cat <<E\n", "cat <<'E'\n", "\nE\n", "<<<", " >&2 ", " 2>&1 ", ">/dev/null ", " < ", "export ",
    "eval ", "~", "a", "é", "/", "-", "*", "!", "$'", "time -p ",
]  # fmt: skip
STARTS = [
    "",
    "",
    "echo ",
    "printf '%s|' ",
    'echo "',
    "A=4; echo ",
    "A=4\n",
    "[[ ",
    "if true; then echo ",
    "set -eu; echo ",
]
BOTH_WAYS = """
while [ "$#" != 0 ]; do
  for command in "$1" "$2"; do (eval -- "$command") 2>/dev/null; printf '\\0%s\\0' "$?"; done
  shift 2
done
"""


@st.composite
def shell_commands(draw: st.DrawFn) -> str:
    pieces = st.one_of(st.sampled_from(VARIABLES), st.sampled_from(SHELL), st.sampled_from(SHELL))
    start, rest = draw(st.sampled_from(STARTS)), draw(st.lists(pieces, min_size=1, max_size=7))
    end = draw(st.sampled_from(["", '"', "; fi"]))
    return start + draw(st.sampled_from(VARIABLES)).join(["".join(rest), end])


def uploaded_and_given(command: str) -> tuple[str, str] | None:
    """Return what a plain step would run, and what our runner does; None where the agent or the runner refuses."""
    try:
        plain = interpolate(command, OF_BOTH | UPLOADED)
        made = {
            name: interpolate(value, OF_BOTH | UPLOADED) for name, value in as_environment([command]).items()
        }
        return plain, given_by(made).commands[0]
    except (InterpolationError, GuardError):
        return None


@given(st.lists(shell_commands(), min_size=30, max_size=60))
@settings(max_examples=25)
def test_bash_makes_the_same_of_the_list_as_of_the_step(commands: list[str]) -> None:
    both = {command: found for command in commands if (found := uploaded_and_given(command))}
    # one text is one answer; everything else is asked of one bash
    pairs = {command: found for command, found in both.items() if found[0] != found[1]}
    texts = [text for pair in pairs.values() for text in pair]
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", BOTH_WAYS, "bash", *texts],
            env={"PATH": os.environ["PATH"], "HOME": "/nowhere", **OF_BOTH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=folder,
            check=True,
            timeout=60,
        )
    said = done.stdout.split(b"\0")
    assert len(said) == 4 * len(pairs) + 1
    for at, (command, pair) in enumerate(pairs.items()):
        plain, from_list = said[4 * at : 4 * at + 2], said[4 * at + 2 : 4 * at + 4]
        assert plain == from_list, (command, pair)


@pytest.mark.parametrize(
    ("command", "item"),
    [
        ("echo $BUILDKITE_BRANCH", "echo $$BUILDKITE_BRANCH"),
        ('[ "$BUILDKITE_BRANCH" = main ] && pytest', '[ "$$BUILDKITE_BRANCH" = main ] && pytest'),
        ("X=a-$BUILDKITE_COMMIT pytest", "X=a-$$BUILDKITE_COMMIT pytest"),
        ("pytest > log; tar c log/$BUILDKITE_N", "pytest > log; tar c log/$$BUILDKITE_N"),
        # to name what was never set ends a strict shell, and is nothing to upload
        ("set -u; echo $BUILDKITE_TAG", "set -u; echo $${BUILDKITE_TAG-}"),
    ],
)
def test_where_a_value_can_only_be_text_the_jobs_shell_expands_it(command: str, item: str) -> None:
    assert as_environment([command]) == {"OMNI_COMMANDS": json.dumps([item])}


@pytest.mark.parametrize(
    "command",
    [
        "$BUILDKITE_RUN tests",
        "echo $$A$BUILDKITE_N",
        "echo {1..$BUILDKITE_N}",
        "echo $BUILDKITE_N>log",
        "cat < $BUILDKITE_FILE",
        "[[ $BUILDKITE_TAG == v1 ]]",
        "for i in 1; do $BUILDKITE_RUN; done",
        "case $BUILDKITE_BRANCH in main) true;; esac",
        "BUILDKITE_BRANCH=x; echo $BUILDKITE_BRANCH",
        "read BUILDKITE_N; echo $BUILDKITE_N",
        "IFS=,; echo $BUILDKITE_LIST",
        "set -u; echo ${BUILDKITE_COMMIT:0:7}",
        "echo ${BUILDKITE_COMMIT:08}",
        "echo $BUILDKITE_EMPTY# x",
        "echo \\ #' $BUILDKITE_N",
        "(true)#'\necho '$BUILDKITE_N'",
        "echo $BUILDKITE_N\\\nx",
        "# a\\\n$BUILDKITE_RUN",
    ],
)
def test_where_a_value_could_be_syntax_upload_puts_it_there(command: str) -> None:
    assert as_environment([command])["OMNI_COMMANDS"] == '["eval \\"$$OMNI_COMMAND_1\\""]'


def test_what_one_command_does_to_a_variable_holds_for_the_next() -> None:
    made = as_environment(["export BUILDKITE_BRANCH=x", "echo $BUILDKITE_BRANCH"])
    assert made["OMNI_COMMAND_2"] == "echo $BUILDKITE_BRANCH"
