"""Text that is no document, or a hostile one: one message with its place, and never a hang."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.yaml.document import plain
from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.reading import read

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 64))
DEEP = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 1000))
MERGES = "a0: &a0 {k: [x, x, x, x]}\n" + "".join(
    f"a{i}: &a{i} {{<<: *a{i - 1}, k{i}: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.yml:1:1: the file is empty"),
        ("# only a comment\n", "p.yml:1:1: the file is empty"),
        ("--- ~\n", "p.yml:1:1: the file is empty"),
        ("- command: a\n", "must be a mapping of keys, this is a list; put its items under `steps:`"),
        ("hello\n", "must be a mapping of keys, this is text"),
        ("steps: [\n", "not valid YAML"),
        ("steps:\n\t- command: a\n", "p.yml:2:1: a tab; YAML is indented with spaces"),
        ("steps:\n  - command: a\x07\n", "p.yml:2:1: a control character"),
        ("steps: [wait]\n---\nsteps: [wait]\n", "p.yml:2:1: a second document starts here"),
        ("steps: &a [*a]\n", "p.yml:1:12: the alias *a refers to itself"),
        ("steps: *nowhere\n", "p.yml:1:8: the alias *nowhere has no anchor above it"),
        ("steps: !!python/object:os.system {}\n", "is not understood"),
        ("steps: !secret x\n", "p.yml:1:8: the tag '!secret' is not understood"),
        ("{a: 1}: 2\n", "a key must be plain text"),
        ("steps:\n  - <<: 3\n    command: a\n", "p.yml:2:5: `<<` takes a mapping"),
        ("steps:\n  - {<<: {}, <<: {}, command: a}\n", "key '<<' is written twice"),
        (BOMB, "more than 250,000 values once its aliases are expanded"),
        (MERGES, "more than 250,000 values once its aliases are expanded"),
        (DEEP, "nested more than 64 levels deep"),
        ("[" * 500, "nested more than 64 levels deep"),
        ("x" * 4_000_001, "more than 4,000,000 characters"),
        ("a: \ud800\n", "not UTF-8"),
    ],
    ids=range(22),
)
def test_unreadable_text_is_one_message(text: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        load_pipeline(text, name="p.yml")
    assert said in str(caught.value)


def test_bytes_that_are_not_utf8_name_the_line() -> None:
    with pytest.raises(LoadError, match=r"p\.yml:2:1: byte 18 is not UTF-8"):
        load_pipeline(b"steps:\n  - label: \xe9\n    command: a\n", name="p.yml")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert load_pipeline("\ufeffsteps: [wait]".encode(), name="p.yml").steps


def test_doubled_keys_are_reported_beside_a_syntax_error() -> None:
    with pytest.raises(LoadError) as caught:
        load_pipeline("a: 1\na: 2\nb: [\n", name="p.yml")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("true", True),
        ("'true'", "true"),
        ("12", 12),
        ("-1", -1),
        ("012", "012"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-01-02", "2026-01-02"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("~", None),
        ("!!str 12", "12"),
        ("9" * 40, "9" * 40),
    ],
)
def test_scalars_are_read_as_the_agent_reads_them(text: str, value: object) -> None:
    document, problems = read(f"a: {text}", "p.yml")
    assert not problems
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_plain_values_share_nothing() -> None:
    document, _ = read("a: &a {b: [1]}\nc: *a\n", "p.yml")
    copy = plain(document)
    copy["a"]["b"].append(2)
    assert copy["c"] == {"b": [1]}
    assert type(copy["a"]) is dict


@settings(max_examples=50)
@given(st.text(alphabet="ab:-[]{}&*<>|!%@#\"' \n\t,1~?", max_size=60))
def test_any_text_loads_or_is_a_load_error(text: str) -> None:
    try:
        load_pipeline(text, name="p.yml")
    except LoadError as error:
        said = error.problems
    else:
        return
    assert said
    assert all(str(problem).startswith("p.yml:") for problem in said)
