"""The agent's interpolation: every vector of the real parser, and what has to hold for any text."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.interpolation import (
    InterpolationError,
    Operator,
    at_run_time,
    escaped,
    interpolate,
    portability,
    references,
    variables,
)
from omni_ci.yaml.emitting import to_yaml
from omni_ci.yaml.reading import read

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "interpolation-vectors.json").read_text(encoding="utf-8")
)["vectors"]
ENV = {"FOO": "1", "BAR": "a b", "EMPTY": ""}  # that of the vectors
SHELL_LIKE = st.text(alphabet="$\\{}:-?_%#()[]'\"\n ABé0٣1+\ufffd", max_size=40)


def test_there_are_two_hundred_and_ten_vectors():
    assert len(VECTORS) == 210
    assert all(set(one) in ({"in", "out"}, {"in", "error"}) for one in VECTORS)


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{at:03}" for at in range(len(VECTORS))])
def test_a_vector_of_the_real_parser(vector):
    if "error" in vector:
        with pytest.raises(InterpolationError) as refused:
            interpolate(vector["in"], ENV)
        assert refused.value.reason.strip() == vector["error"]
        assert vector["in"][refused.value.column - 1] == "$"
    else:
        assert interpolate(vector["in"], ENV) == vector["out"]


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("${BAR:-3}", "a b"),
        ("${BAR: -1}", "b"),
        ("${BAR:-9:2}", "a b"),
        ("${BAR:1:-9}", ""),
        ("${BAR:1:99}", " b"),
        ("${NOPE:2:3}", ""),
        ("${WIDE:0:2}", "é"),
        ("${NOPE-${NOPE:-${FOO}}}", "1"),
        ("${EMPTY?m}", ""),
        ("${FOO?$NOPE}", "1"),
    ],
)
def test_slices_and_defaults(text, out):
    assert interpolate(text, {**ENV, "WIDE": "éa"}) == out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${NOPE?}", "$NOPE: not set"),
        ("${NOPE?no $FOO}", "$NOPE: no 1"),
        ("${FOO:1:}", 'Unable to parse length: strconv.Atoi: parsing "": invalid syntax'),
        (
            "${FOO:99999999999999999999}",
            'Unable to parse offset: strconv.Atoi: parsing "99999999999999999999": value out of range',
        ),
        ("${FOO:-a", "Expected brace expansion to end with }, got \ufffd"),
        ("${A:-" * 60 + "}" * 60, "more than 50 variables stand in each other's defaults"),
    ],
)
def test_what_the_agent_refuses_is_said_in_its_words(text, reason):
    with pytest.raises(InterpolationError) as refused:
        interpolate(text, ENV)
    assert refused.value.reason == reason
    assert refused.value.exit_code == 2


def test_an_error_names_the_expression_it_is_about():
    with pytest.raises(InterpolationError, match=r"'\$\{X\[@\]\}' at column 6: Expected an operator, got \["):
        interpolate("echo ${X[@]}\nand more", ENV)


def test_what_is_replaced_is_known_with_its_place():
    found = references("a $FOO ${BAR:-x$EXTRA} $$NO \\$NO ${SHA:0:7}")
    assert [(one.name, one.text, one.column, one.operator) for one in found] == [
        ("FOO", "$FOO", 3, Operator.NONE),
        ("BAR", "${BAR:-x$EXTRA}", 8, Operator.IF_EMPTY),
        ("EXTRA", "$EXTRA", 16, Operator.NONE),
        ("SHA", "${SHA:0:7}", 34, Operator.SLICE),
    ]
    assert [one.has_default for one in found] == [False, True, False, False]
    assert variables("$A $B ${A}") == ("A", "B")


def test_the_shell_gets_its_dollars_and_two_backslashes():
    assert at_run_time(r"$$A \$B \\$C $(D) $E ${F} \n $$$$") == r"$A $B \\$C $(D) $E ${F} \n $$"


@pytest.mark.parametrize("text", ["EXIT=$?", "bash $0", '"$@"', "x=$'a'", "$1", "$_X", "costs $ 5"])
def test_agent715_what_older_agents_refuse_is_a_notice_and_no_error(text):
    """`$?` and `$0` were fatal to older agents and pass today: said, not refused."""
    assert interpolate(text, {}) == text
    (said,) = portability(text)
    assert "buildkite/agent#715" in said
    assert portability(text.replace("$", "$$")) == []


def test_agent927_an_unset_variable_becomes_empty_without_a_word():
    """The agent replaces `$FOO` by nothing, which is why somebody else has to say so."""
    assert interpolate("rm -rf $FOO/", {}) == "rm -rf /"
    assert variables("rm -rf $FOO/") == ("FOO",)


@pytest.mark.parametrize("fine", ["a", "$$?", r"\$?", "$(date)", "ends with $", "$FOO", "${FOO:-$$?}", "$é"])
def test_nothing_is_said_of_what_every_agent_takes(fine):
    assert portability(fine) == []


MESSAGES = ["pay $5 'now'", 'a "quoted" ${X[@]}\nsecond: line', "C:\\$HOME \\\\$Q", "$(date) $$ $? `x` # é"]


@pytest.mark.parametrize("message", MESSAGES)
def test_monorepo_diff26_a_commit_message_with_dollars_survives_generation(message):
    """`$`, quotes and line ends of a commit message or branch broke generated pipelines."""
    written = to_yaml({"steps": [{"label": escaped(message), "command": "true"}]})
    document, problems = read(written, "generated")
    assert not problems
    assert interpolate(document["steps"][0]["label"], {"X": "no", "HOME": "no"}) == message


@pytest.mark.parametrize("message", MESSAGES)
def test_monorepo_diff26_a_value_is_not_read_again(message):
    """What a variable holds is text to the agent: its own dollars stay."""
    assert interpolate("$BUILDKITE_MESSAGE", {"BUILDKITE_MESSAGE": message}) == message


@settings(max_examples=300)
@given(SHELL_LIKE)
def test_any_text_is_interpolated_or_refused(text):
    with contextlib.suppress(InterpolationError):
        assert isinstance(interpolate(text, ENV), str)
    at_run_time(text)
    portability(text)


@given(st.text(alphabet=st.characters(blacklist_characters="$\\"), max_size=60))
def test_a_text_without_dollar_and_backslash_is_left_alone(text):
    assert interpolate(text, ENV) == text
    assert escaped(text) == text
    assert at_run_time(text) == text


@given(st.text(alphabet=st.characters(blacklist_characters="$"), max_size=60))
def test_a_text_without_dollar_is_left_alone(text):
    assert interpolate(text, ENV) == text


@settings(max_examples=300)
@given(SHELL_LIKE)
def test_what_is_escaped_comes_out_as_it_was(text):
    assert interpolate(escaped(text), ENV) == text
    assert variables(escaped(text)) in {(), ("OMNI_CI_UNSET",)}
