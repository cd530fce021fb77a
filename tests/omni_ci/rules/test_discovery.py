"""Every rule has a code of its own, says what must hold and why, and has a test."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from omni_ci.rules.discovery import RuleError, collected, rules
from omni_ci.rules.rule import Rule

HERE = Path(__file__).parent


def module(name: str, **attributes: object) -> ModuleType:
    """A rule's module with one class, whose attributes are given."""
    made = ModuleType(f"omni_ci.rules.{name}")
    documented = {
        "__doc__": "It holds.\n\nBecause.",
        "__module__": made.__name__,
        "check": lambda *_: iter(()),
    }
    made.Made = type("Made", (Rule,), documented | attributes)
    return made


def test_the_package_holds_rules_in_the_order_of_their_codes():
    codes = list(rules())
    assert len(codes) > 30
    assert codes == sorted(codes)


@pytest.mark.parametrize("code", rules())
def test_a_rule_says_in_a_line_what_must_hold_and_below_why(code):
    rule = rules()[code]
    assert re.fullmatch(r"\S.{10,100}\.", rule.title)
    assert len(rule.remedy) > 60
    assert rule.remedy.endswith(".")


@pytest.mark.parametrize("code", rules())
def test_a_rule_has_a_test_of_its_own_for_what_it_finds_and_for_what_is_fine(code):
    name = type(rules()[code]).__module__.rpartition(".")[2]
    text = (HERE / f"test_{name}.py").read_text(encoding="utf-8")
    assert text.count("\ndef test_") >= 2
    assert f'"{code}"' in text
    assert re.search(r"== \[\]", text), "no input that is fine"


def test_no_test_is_of_a_rule_that_is_gone():
    names = {type(rule).__module__.rpartition(".")[2] for rule in rules().values()}
    assert {path.stem.removeprefix("test_") for path in HERE.glob("test_ci*.py")} == names


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        (
            [module("ci001_one", code="CI001"), module("ci001_other", code="CI001")],
            "CI001 is also the code of",
        ),
        ([module("ci001_one", code="CI002")], "must be that of its file, not 'CI002'"),
        ([module("ci001_one")], "must be that of its file, not None"),
        ([module("ci001_one", code="CI001", __doc__="Only a title.")], "the docstring must say"),
        ([ModuleType("omni_ci.rules.ci001_one")], "holds one rule, this one 0"),
    ],
)
def test_a_broken_rule_is_an_error_and_not_a_rule_less(modules, says):
    with pytest.raises(RuleError, match=re.escape(says)):
        collected(modules)
