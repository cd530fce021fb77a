from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from omni_hardware.errors import InputError
from omni_hardware.project import extend
from omni_hardware.requirement_checks import Misuse
from omni_hardware.static_marks import check_source
from omni_hardware.vocabulary import DEFAULT
from pytest_omni import hardware_marks, hardware_test
from pytest_omni.marks import declared_by, mark_of

XDIST = ("xdist.plugin", "pytest_omni.plugin")
HEAD = "import pytest\nfrom pytest_omni import hardware_marks, hardware_test\n"


def said(mark, vocabulary=DEFAULT):
    try:
        return str(declared_by(mark).requirement(vocabulary))
    except InputError as error:
        return re.sub(r"^([^ ]+:\d+|a mark by hand): ", "", str(error), flags=re.MULTILINE)


def closest(pytester, source):
    """Return what counts for each item of a module, by its name."""
    found = {}
    for item in pytester.getitems(HEAD + source):
        mark = mark_of(item)
        found[item.name] = None if mark is None else said(mark)
    return found


def test_the_decorator_puts_one_mark_on_and_judges_nothing():
    @hardware_test(res={"cuda": "GB300"}, num_cards=2)
    def test_a(): ...

    (mark,) = test_a.pytestmark
    assert mark.name == "hardware"
    assert said(mark, extend({"skus": {"cuda": ["GB300"]}}, source="")) == "cuda GB300×2"
    assert said(mark).startswith("hardware_test: res['cuda']: unknown SKU 'GB300'")


def test_the_list_holds_the_same_mark():
    (decorator,) = hardware_marks(res={"cuda": "H100", "cpu": "any"}, num_cards=2, min_memory="40GiB")
    assert said(decorator.mark) == "cuda H100×2 with ≥ 40 GiB each or cpu"


def test_a_mistake_is_told_with_file_and_line_and_never_raised_at_import():
    (decorator,) = hardware_marks(res={"cude": "L4"}, num_card=2, num_cards=0)
    with pytest.raises(InputError) as caught:
        declared_by(decorator.mark).requirement(DEFAULT)
    where = [
        re.fullmatch(r"(.*test_marks\.py):(\d+): hardware_marks: .*", line)
        for line in str(caught.value).splitlines()
    ]
    assert len(where) == 3
    assert len({(hit[1], hit[2]) for hit in where}) == 1


@pytest.mark.parametrize("arguments", [(), ({"cuda": "L4"},), (1, 2)], ids=str)
def test_misplaced_arguments_are_told_at_collection(arguments):
    expected = (
        Misuse.POSITIONAL if arguments else "res: missing; name a platform and a SKU, as res={'cuda': 'H100'}"
    )
    assert said(hardware_test(*arguments).mark) == f"hardware_test: {expected}"
    assert said(hardware_marks(*arguments)[0].mark) == f"hardware_marks: {expected}"


def test_a_decorator_without_parentheses_leaves_a_test_that_is_collected():
    @hardware_test
    def test_a():
        return 1

    @hardware_marks(res={"cuda": "L4"})
    def test_b():
        return 2

    assert (test_a(), test_b()) == (1, 2)
    assert [said(test.pytestmark[0]) for test in (test_a, test_b)] == [
        f"hardware_test: {Misuse.BARE}",
        f"hardware_marks: {Misuse.AS_DECORATOR}",
    ]


def test_the_closest_declaration_counts(pytester):
    assert closest(
        pytester,
        """
pytestmark = hardware_marks(res={"cuda": "L4"})
def test_module(): pass
@hardware_test(res={"cuda": "A100"})
def test_own(): pass
@hardware_test(res={"cuda": "A100"})
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=hardware_marks(res={"cuda": "H100"}))])
def test_parameter(x): pass
@hardware_test(res={"rocm": "MI300"})
class TestBase:
    def test_class(self): pass
    @hardware_test(res={"rocm": "MI250"})
    def test_own(self): pass
@hardware_test(res={"rocm": "MI325"})
class TestDerived(TestBase): pass
""",
    ) == {
        "test_module": "cuda L4",
        "test_own": "rocm MI250",  # of the class; the names of the two are the same
        "test_parameter[1]": "cuda A100",
        "test_parameter[2]": "cuda H100",
        "test_class": "rocm MI325",
    }


def test_without_a_declaration_there_is_none(pytester):
    assert closest(pytester, "@pytest.mark.cuda\ndef test_a(): pass") == {"test_a": None}


@pytest.mark.parametrize(
    ("source", "name", "misuse"),
    [
        (
            "@hardware_test(res={'cuda': 'L4'})\n@hardware_test(res={'cuda': 'L4'})\ndef test_a(): pass",
            "test_a",
            Misuse.TWICE,
        ),
        ("pytestmark = 2 * hardware_marks(res={'cuda': 'L4'})\ndef test_a(): pass", "test_a", Misuse.TWICE),
        (
            (
                "PARAM = pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}))\n"
                "@pytest.mark.parametrize('x', [PARAM])\n@pytest.mark.parametrize('y', [PARAM])\ndef test_a(x, y): pass"
            ),
            "test_a[1-1]",
            Misuse.TWO_PARAMETERS,
        ),
        (
            (
                "PARAM = pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}, expand='platform'))\n"
                "@pytest.mark.parametrize('x', [PARAM])\ndef test_a(x): pass"
            ),
            "test_a[1]",
            Misuse.NOT_EXPANDED,
        ),
        (
            (
                "import unittest\n@hardware_test(res={'cuda': 'L4', 'cpu': 'any'}, expand='platform')\n"
                "class TestA(unittest.TestCase):\n    def test_a(self): pass"
            ),
            "test_a",
            Misuse.NOT_EXPANDED,
        ),
        ("@pytest.mark.hardware(res={'cuda': 'L4'})\ndef test_a(): pass", "test_a", Misuse.BY_HAND),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnknownMarkWarning")
def test_two_declarations_on_one_test_contradict_each_other(pytester, source, name, misuse):
    assert closest(pytester, source)[name].partition(": ")[2] == misuse


VARIANTS = """
RES = {"cuda": "L4", "rocm": "MI300", "cpu": "any"}
@hardware_test(res=RES, expand="platform", num_cards={"rocm": COUNT})
def test_plain(): pass
@pytest.mark.parametrize("x", [1, 2])
@hardware_test(res=RES, expand="platform")
def test_more(x, tmp_path): pass
@hardware_test(res={"cuda": "L4", "rocm": "MI300"}, expand="platform")
class TestClass:
    @pytest.fixture(autouse=True, params=["a"])
    def letter(self, request): pass
    def test_method(self): pass
    @hardware_test(res={"rocm": "MI300"})
    def test_own(self): pass
"""
IDS = [
    "test_plain[cuda]",
    "test_plain[rocm]",
    "test_plain[cpu]",
    "test_more[cuda-1]",
    "test_more[cuda-2]",
    "test_more[rocm-1]",
    "test_more[rocm-2]",
    "test_more[cpu-1]",
    "test_more[cpu-2]",
    "TestClass::test_method[cuda-a]",
    "TestClass::test_method[rocm-a]",
    "TestClass::test_own[a]",
]


def selected(result):
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    return [line.partition("::")[2] for line in result.outlines if line.startswith("test_a.py::")]


@pytest.mark.parametrize(
    ("count", "asked", "ids"),
    [
        (1, ("--omni-platform", "cuda"), [name for name in IDS if "rocm" not in name and "own" not in name]),
        (8, ("--omni-platform", "rocm"), [name for name in IDS if "cuda" not in name]),
        (2, ("-m", "rocm and cards_2"), ["test_plain[rocm]"]),
        (1, ("-m", "cuda and L4"), [name for name in IDS if "cuda" in name]),
        (1, ("-m", "cpu"), [name for name in IDS if "cpu" in name]),
    ],
    ids=str,
)
def test_a_variant_a_platform_has_a_name_that_no_count_changes(armed, inner, count, asked, ids):
    platform = "rocm" if "rocm" in " ".join(asked) else "cuda"
    sku = {"cuda": "L4", "rocm": "MI300"}[platform]
    cards = [
        {"index": index, "uuid": f"GPU-{index}", "sku": sku, "memory_mib": 23034, "used_mib": 0, "mig": None}
        for index in range(8)
    ]
    visible = {"variable": None, "value": None}
    seen = {
        "schema": 1,
        "platform": platform,
        "driver": "1",
        "error": None,
        "devices": cards,
        "visible": visible,
    }
    (armed.path / "inventory.json").write_text(json.dumps(seen))
    armed.makepyfile(test_a=HEAD + f"COUNT = {count}\n" + VARIANTS)
    result = inner("--co", "-q", "--strict-markers", "--omni-inventory", "inventory.json", *asked)
    assert selected(result) == ids


def test_variants_run_like_any_other_test(armed, inner):
    armed.makepyfile(test_a=HEAD + "COUNT = 1\n" + VARIANTS)
    inner("-m", "cpu", "--strict-markers", "-Werror").assert_outcomes(passed=3, deselected=9)


BAD = """
pytestmark = [pytest.mark.slow]
@hardware_test
def test_bare(): pass
@hardware_marks(res={"cuda": "L4"})
def test_list(): pass
@hardware_test(res={"cude": "L4", "cuda": ["H1000", "MI300"], "gpu": "x"}, num_cards=True, min_memory="40", expand="both")
def test_arguments(): pass
@hardware_test(rez={}, num_card=1)
def test_names(): pass
@hardware_test(res={"cuda": "L4"})
@hardware_test(res={"cuda": "L4"})
def test_twice(): pass
@pytest.mark.cpu
class TestClass:
    @pytest.mark.cuda
    def test_both(self): pass
@pytest.mark.H100
def test_bare_sku(): pass
@pytest.mark.cuda
@hardware_test(res={"cuda": "L4", "rocm": "MI300"}, expand="platform")
def test_beside(): pass
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=hardware_marks(res={"cuda": "L4"}))])
@hardware_test(res={"cuda": "L4", "rocm": "MI300"}, expand="platform")
def test_mixed(x): pass
def test_fine(): pass
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_all_mistakes_come_at_once_in_the_words_of_the_static_check(armed, inner, workers):
    path = armed.makepyfile(test_a=HEAD + BAD)
    result = inner(*workers, "--strict-markers", plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = result.stderr.str()
    static = check_source(path.read_text(), "test_a.py")
    assert len(static) == 17
    for finding in static:
        assert finding.message in errors
    told = {line.strip() for line in errors.splitlines()}
    assert "test_a.py::test_names" in told
    assert not [
        line for line in told if "test_fine" in line or "Traceback" in line or "INTERNALERROR" in line
    ]


@pytest.mark.parametrize("options", [("--strict-markers",), ("-Werror",), ("-n1",)], ids=" ".join)
def test_in_an_unarmed_session_it_names_the_line_to_add(pytester, inner, options):
    pytester.makepyfile(
        test_a=HEAD + "@hardware_test(res={'cuda': 'L4'}, expand='platform')\ndef test_a(): pass"
    )
    result = inner(*options, plugins=XDIST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (error,) = [line for line in result.errlines if line.startswith("ERROR:")]
    assert error == (
        "ERROR: test_a.py::test_a: hardware_test belongs to pytest-omni, which is not armed in this project; add the "
        f"line [tool.omni] to {pytester.path / 'pyproject.toml'} (which does not exist yet: create it)"
    )


def test_a_mark_of_that_name_is_anybodys_in_an_unarmed_session(pytester, inner):
    pytester.makeini("[pytest]\nmarkers = hardware: ours\n")
    pytester.makepyfile("import pytest\n@pytest.mark.hardware\ndef test_a(): pass")
    inner("--strict-markers").assert_outcomes(passed=1)


def test_importing_the_marks_costs_nothing_heavy():
    code = "import sys, pytest_omni; print({'torch', 'psutil', 'filelock', 'ast_checks', 'omni'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_hardware_marks_may_stand_in_a_list_of_marks(armed, inner):
    armed.makepyfile(
        """
        import pytest
        from pytest_omni import hardware_marks

        pytestmark = [pytest.mark.core_model, hardware_marks(res={"rocm": "MI300"})]

        @pytest.mark.parametrize("x", [pytest.param(1, marks=[pytest.mark.slow, hardware_marks(res={"cpu": "any"})])])
        def test_cpu(x): pass
        def test_rocm(): pass
        """
    )
    inner("-m", "core_model").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("strict", [(), ("--strict-markers",)], ids=["lax", "strict"])
def test_a_marker_by_hand_with_arguments_is_a_mistake(pytester, inner, strict):
    pytester.makepyprojecttoml("[tool.omni]")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cuda
        def test_fine(): pass
        @pytest.mark.cuda(2)
        def test_cards(): pass
        @pytest.mark.cards_2(why="so")
        @pytest.mark.cuda
        def test_why(): pass
        @pytest.mark.hardware_test(res={"cuda": "H100"})
        def test_imported(): pass
        """
    )
    result = inner(*strict)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = result.stderr.str()
    assert "pytest.mark.cuda(2): a marker by hand takes no arguments; hardware_test(" in errors
    assert "pytest.mark.cards_2(why='so'): a marker" in errors
    assert "pytest.mark.hardware_test is no marker: write `from pytest_omni import hardware_test`" in errors
    assert "test_fine" not in errors
