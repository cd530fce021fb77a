from __future__ import annotations

import pytest

from omni_hardware.expression import parse
from omni_hardware.vocabulary import DEFAULT, Vocabulary
from pytest_omni.options import Settings
from pytest_omni.run_level import RunLevel, deeper_message, is_deeper, run_level

XDIST = ("xdist.plugin", "pytest_omni.plugin")
OWN = Vocabulary(levels=("smoke", "core_model", "soak"))
# What a response check of an advanced_model test sees: dummy weights give noise, real ones an image of a cat.
SEMANTIC = """
import pytest

pytestmark = pytest.mark.advanced_model

def test_cat(run_level):
    picture = "noise" if run_level == "core_model" else "cat"
    assert picture == "cat"

@pytest.mark.core_model
def test_any_picture(run_level): assert run_level

def test_no_level(): pass
"""
TOLD = (
    "1 selected test goes deeper than run level core_model (default: -m names no level): "
    "weights are dummy or tiny there; run --run-level advanced_model"
)
DEEPER = "  test_deep.py::test_cat (advanced_model)"


@pytest.mark.parametrize(
    ("expression", "setting", "name", "because"),
    [
        ("", "auto", "core_model", "default: -m names no level"),
        ("cuda and not full_model", "auto", "core_model", "default: -m names no level"),
        ("core_model and cuda", "auto", "core_model", "-m names core_model"),
        ("advanced_model", "auto", "advanced_model", "-m names advanced_model"),
        ("core_model or full_model", "auto", "full_model", "-m names full_model"),
        ("core_model and not (slow or not full_model)", "auto", "full_model", "-m names full_model"),
        ("full_model", "core_model", "core_model", "--run-level"),
        ("", "full_model", "full_model", "--run-level"),
    ],
)
def test_the_level_is_the_set_one_else_the_deepest_that_m_asks_for(expression, setting, name, because):
    settings = Settings(run_level=setting, sources={"run_level": "--run-level"})
    level = run_level(settings, parse(expression).positive, DEFAULT)
    assert (level.name, level.because) == (name, because)
    assert level.weights == ("dummy or tiny" if name == "core_model" else "real")


def test_levels_of_the_project():
    assert run_level(Settings(), frozenset(), OWN).name == "smoke"
    level = run_level(Settings(), frozenset({"core_model"}), OWN)
    assert (level.name, level.weights) == ("core_model", "real")


@pytest.mark.parametrize(
    ("names", "level", "deeper"),
    [
        ({"advanced_model"}, "core_model", "advanced_model"),
        ({"full_model", "slow"}, "advanced_model", "full_model"),
        ({"advanced_model", "full_model"}, "core_model", "advanced_model"),
        ({"core_model", "full_model"}, "core_model", None),
        ({"core_model"}, "full_model", None),
        ({"slow"}, "core_model", None),
        (set(), "core_model", None),
    ],
)
def test_a_test_is_deeper_when_its_shallowest_level_is(names, level, deeper):
    assert is_deeper(names, level, DEFAULT.levels) == deeper


def test_many_deeper_tests_are_counted_and_a_few_listed():
    level = RunLevel("core_model", "default", "dummy or tiny")
    lines = deeper_message(level, [(f"t.py::t{n}", "full_model") for n in range(12)]).splitlines()
    assert lines[0].startswith("12 selected tests go deeper than run level core_model (default)")
    assert lines[1:] == [*(f"  t.py::t{n} (full_model)" for n in range(10)), "  … and 2 more"]


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_vllm_omni4842_a_test_deeper_than_the_level_is_told_or_gets_its_level(armed, inner, workers):
    """Default level core_model: dummy weights made semantic assertions fail, and nothing said why."""
    armed.makepyfile(test_deep=SEMANTIC)
    silent = inner(*workers, "-k", "cat or any", plugins=XDIST)
    silent.assert_outcomes(failed=1, passed=1, deselected=0 if workers else 1)
    assert [silent.outlines.count(line) for line in (TOLD, DEEPER)] == [1, 1]
    for asked in (["-m", "advanced_model"], ["--run-level=full_model"]):
        right = inner(*workers, *asked, plugins=XDIST)
        right.assert_outcomes(passed=3)
        right.stdout.no_fnmatch_line("*goes deeper*")
    strict = inner(*workers, "--omni-strict", "-k", "cat or any", plugins=XDIST)
    assert strict.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in strict.errlines if line] == [f"ERROR: {TOLD}", DEEPER]
