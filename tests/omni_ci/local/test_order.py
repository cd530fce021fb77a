from __future__ import annotations

import pytest

from omni_ci.local.order import waits_of
from omni_ci.yaml.loading import load_pipeline
from omni_hardware.errors import InputError


def waits(*texts: str, only: str | None = None):
    """Return what each step waits for, by the part of its name after the file."""
    pipelines = [load_pipeline(text, name=f"{number}.yml") for number, text in enumerate(texts)]
    leaves = [(one.name, leaf) for one in pipelines for _, leaf in one.leaves()]
    names = [f"{name}#{leaf.ident}" for name, leaf in leaves if not getattr(leaf, "is_gate", False)]
    selected = {name for name in names if only is None or name.partition("#")[2] in only.split()}
    found = waits_of(pipelines, selected)
    short = {
        name.partition("#")[2]: {other.partition("#")[2]: lenient for other, lenient in others.items()}
        for name, others in found.by_id.items()
    }
    return short, found.notices


def steps(*lines: str) -> str:
    return "steps:\n" + "\n".join(f"  - {line}" for line in lines)


def step(key: str, more: str = "") -> str:
    return f"{{key: {key}, label: {key}, commands: [x]{f', {more}' if more else ''}}}"


def test_steps_beside_each_other_wait_for_nothing():
    assert waits(steps(step("a"), step("b"))) == ({"a": {}, "b": {}}, ())


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("depends_on: a", {"a": False}),
        ("depends_on: [a]", {"a": False}),
        ("depends_on: [{step: a}]", {"a": False}),
        ("depends_on: [{step: a, allow_failure: true}]", {"a": True}),
        ("depends_on: a, allow_dependency_failure: true", {"a": True}),
        ("depends_on: ~", {}),
    ],
)
def test_a_key_is_waited_for(more, found):
    assert waits(steps(step("a"), step("b", more)))[0]["b"] == found


def test_a_wait_parts_a_file_except_for_steps_that_say_what_they_wait_for():
    text = steps(step("a"), step("b"), "wait", step("c"), step("d", "depends_on: a"), "wait", step("e"))
    assert waits(text)[0] == {
        "a": {},
        "b": {},
        "c": {"a": False, "b": False},
        "d": {"a": False},
        "e": {"a": False, "b": False, "c": False, "d": False},
    }


def test_a_wait_that_goes_on_after_a_failure():
    text = steps(step("a"), "{wait: ~, continue_on_failure: true}", step("b"))
    assert waits(text)[0]["b"] == {"a": True}


def test_a_group_stands_for_its_steps_on_both_sides():
    text = f"""\
steps:
  - group: First
    key: first
    steps: [{step("a")}, {step("b")}]
  - group: Second
    depends_on: first
    steps: [{step("c")}, {step("d", "depends_on: c")}]
"""
    assert waits(text)[0] == {
        "a": {},
        "b": {},
        "c": {"a": False, "b": False},
        "d": {"c": False, "a": False, "b": False},
    }


def test_a_key_of_another_file_is_found_and_one_of_no_file_is_said():
    found, notices = waits(steps(step("a")), steps(step("b", "depends_on: [a, image-build]")))
    assert found["b"] == {"a": False}
    assert notices == ("'image-build' is in no file here, so it is taken as done: 1.yml#b waits for it",)


def test_through_a_step_that_is_left_out_what_it_waited_for_is_waited_for():
    text = steps(step("a"), step("b", "depends_on: a"), step("c", "depends_on: b"))
    assert waits(text, only="a c")[0] == {"a": {}, "c": {"a": False}}


@pytest.mark.parametrize(
    ("text", "circle"),
    [
        (steps(step("a", "depends_on: b"), step("b", "depends_on: a")), ("0.yml#a", "0.yml#b")),
        (steps(step("a", "depends_on: c"), "wait", step("c")), ("0.yml#a", "0.yml#c")),
    ],
)
def test_a_circle_is_an_error_that_names_it(text, circle):
    with pytest.raises(InputError) as caught:
        waits(text)
    assert "wait for each other in a circle" in str(caught.value)
    assert all(name in str(caught.value) for name in circle)


def test_a_circle_names_each_step_before_what_it_waits_for():
    text = steps(step("a", "depends_on: b"), step("b", "depends_on: c"), step("c", "depends_on: a"))
    with pytest.raises(InputError) as caught:
        waits(text)
    names = str(caught.value).partition(": ")[2].partition(";")[0].replace("0.yml#", "").split(" waits for ")
    assert "".join(names) in {"abca", "bcab", "cabc"}
