"""The types of fields: what a lone value stands for, numbers as written, and parts that know their place."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from omni_ci.yaml.document import Where
from omni_ci.yaml.fields import Dependencies, Environment, Located, Texts, as_written, one_or_many
from omni_ci.yaml.loading import load_document


class Part(Located):
    """One with a field of each type."""

    texts: Texts = ()
    paths: Dependencies = ()
    env: Environment | None = None
    inner: Part | None = None


def load(text: str) -> Part:
    return load_document(text, "part.yml", Part)


@pytest.mark.parametrize(
    ("value", "many"), [("a", ["a"]), ({"a": 1}, [{"a": 1}]), (["a"], ["a"]), (("a",), ("a",)), (3, 3)]
)
def test_a_lone_text_or_mapping_is_a_list_of_it(value: object, many: object) -> None:
    assert one_or_many(value) == many


def test_numbers_keep_their_text_and_bools_are_lower_case() -> None:
    assert load("env: {A: 1.10, B: 007, C: true, D: TRUE, E: on, F: 1e3}").env == {
        "A": "1.10",
        "B": "007",
        "C": "true",
        "D": "TRUE",
        "E": "on",
        "F": "1e3",
    }
    assert as_written({"A": 1.5, "B": False, "C": [1]}) == {"A": "1.5", "B": "false", "C": [1]}


def test_lists_in_lists_are_flat_and_doubles_go() -> None:
    assert load("x-a: &a [b, [c]]\npaths: [a, *a, b, [[a]]]").paths == ("a", "b", "c")


def test_a_part_knows_where_it_and_its_keys_are_written() -> None:
    part = load("texts: a\ninner:\n  texts:\n    - b\n").inner
    assert part is not None
    assert part.where == Where("part.yml", 3, 3)
    assert part.place("texts") == Where("part.yml", 3, 3)
    assert part.place("env") == part.where
    assert Part(texts=("a",)).place("texts") == Where("<memory>")


def test_a_part_is_frozen_and_refuses_unknown_names() -> None:
    with pytest.raises(ValidationError):
        Part.model_validate({"text": "a"})
    with pytest.raises(ValidationError):
        setattr(Part(), "texts", ("a",))  # noqa: B010 - the type checker refuses the plain form
