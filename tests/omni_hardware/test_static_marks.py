from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.requirement_checks import Misuse, call_problems
from omni_hardware.static_marks import check_source, main

HEAD = "import pytest\nfrom pytest_omni import OmniServerParams, hardware_marks, hardware_test\n"
NO_CARDS = "H100 without a number of cards; add cards_1, or write hardware_test(res={'cuda': 'H100'})"
CPU_CUDA = "cpu and cuda on one test: the first needs no device, the other does"


def findings(source: str, head: str = HEAD) -> list[tuple[int, int, str]]:
    """Line and column below *head*, and the message."""
    found = check_source(head + textwrap.dedent(source).lstrip("\n"), "test_a.py")
    return [(finding.line - head.count("\n"), finding.column, finding.message) for finding in found]


RIGHT = {
    "nothing": "def test_a(): pass",
    "declared": "@hardware_test(res={'cuda': ['L4', 'A100'], 'cpu': 'any'}, num_cards={'cuda': 2}, expand='platform')\n"
    "def test_a(): pass",
    "by hand": "@pytest.mark.cuda\n@pytest.mark.H100\n@pytest.mark.cards_1\ndef test_a(): pass",
    "module completes": "pytestmark = pytest.mark.H100\n@pytest.mark.cards_2\ndef test_a(): pass",
    "class completes": """
        @pytest.mark.cards_2
        class TestA:
            pytestmark = [pytest.mark.slow]
            @pytest.mark.H100
            def test_a(self): pass
        """,
    "base class completes": """
        @pytest.mark.cards_2
        class Base: pass
        class TestA(Base):
            @pytest.mark.H100
            def test_a(self): pass
        """,
    "base class from elsewhere may complete": """
        from elsewhere import Base
        class TestA(Base):
            @pytest.mark.H100
            def test_a(self): pass
        """,
    "parameters complete": """
        @pytest.mark.H100
        @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.cards_1), pytest.param(2, marks=[pytest.mark.cards_2])])
        def test_a(x): pass
        """,
    "one platform a parameter": """
        PLATFORMS = [pytest.param("cpu", marks=[pytest.mark.cpu]), pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.gpu])]
        pytestmark = [pytest.mark.core_model, pytest.mark.parametrize("x", PLATFORMS, indirect=True)]
        def test_a(x): pass
        """,
    "an imported mark may complete": "from marks import four\n@four\n@pytest.mark.H100\ndef test_a(): pass",
    "a computed mark may complete": "pytestmark = list(four())\n@pytest.mark.H100\ndef test_a(): pass",
    "computed parameters may complete": "@pytest.mark.H100\n@pytest.mark.parametrize('x', cases())\ndef test_a(x): pass",
    "an imported value may complete": "from a import b\n@pytest.mark.H100\n@pytest.mark.parametrize('x', [b, b.c, b()])\n"
    "def test_a(x): pass",
    "a named value completes": "ONE = pytest.param(1, marks=pytest.mark.cards_1)\n@pytest.mark.H100\n"
    "@pytest.mark.parametrize('x', argvalues=[ONE])\ndef test_a(x): pass",
    "names in a circle": "A = [*A]\nB = {'cuda': B}\nC = C.mark\n@C.H100\n@pytest.mark.parametrize('x', A)\n"
    "@hardware_test(res=B, num_cards=A)\ndef test_a(x): pass\npytestmark = A",
    "inside a function": "def test_a():\n    hardware_marks(res={'cude': 1})\n    pytest.mark.H100(print)",
    "inside a lambda": "later = lambda: hardware_marks(res={'cude': 1})",
    "dynamic arguments": "def make(sku, more):\n    return 1\nSKU = make(1, 2)\n"
    "@hardware_test(res={'cuda': SKU, **SKU}, num_cards=SKU, min_memory=f'{SKU}GiB')\ndef test_a(): pass\n"
    "@hardware_test(**SKU)\ndef test_b(): pass",
    "assigned twice is dynamic": "if 1:\n    SKU = 'zzz'\nelse:\n    SKU = 'L4'\n@hardware_test(res={'cuda': SKU})\ndef test_a(): pass",
    "marks of others": "@pytest.mark.cuda.with_args(1)\n@pytest.fixture\n@pytest.mark.mine\ndef test_a(): pass",
    "redundant": "@pytest.mark.gpu\n@hardware_test(res={'cuda': 'L4', 'rocm': 'MI300'})\ndef test_a(): pass",
    "own requirement instead of the module's": """
        pytestmark = hardware_marks(res={"rocm": "MI300"})
        @pytest.mark.cuda
        @hardware_test(res={"cuda": "L4"})
        def test_a(): pass
        """,
    "a parameter of a test that the module does not expand": """
        pytestmark = hardware_marks(res={"cuda": "L4", "rocm": "MI300"}, expand="platform")
        @hardware_test(res={"cuda": "L4"})
        @pytest.mark.parametrize("x", [1, pytest.param(2, marks=hardware_marks(res={"cuda": "H100"}))])
        def test_a(x): pass
        """,
    "no test": "@something\ndef helper(): pass\npytestmark = pytest.mark.H100",
}


@pytest.mark.parametrize("source", RIGHT.values(), ids=RIGHT.keys())
def test_what_is_right_or_only_known_at_run_time_is_not_told(source):
    assert findings(source) == []


WRONG = {
    "bad argument": (
        "@hardware_test(res={'cude': 'L4'}, num_cards=0)\ndef test_a(): pass",
        [
            (1, 20, "hardware_test: res: unknown platform 'cude' (did you mean 'cuda'?)"),
            (1, 46, "hardware_test: num_cards: 0 cards; a test that needs no card names cpu"),
        ],
    ),
    "bad argument behind names": (
        "SKUS = ['L4', 'H1000']\nRES = {'cuda': SKUS}\npytestmark = [*hardware_marks(res=RES), pytest.mark.slow]",
        [(3, 35, "hardware_marks: res['cuda']: unknown SKU 'H1000' (did you mean 'H100'?)")],
    ),
    "what stands around a dynamic value": (
        "import os\n@hardware_test(res={'cuda': os.name, 'cude': 'x'}, num_cards=True)\ndef test_a(): pass",
        [
            (2, 20, "hardware_test: res: unknown platform 'cude' (did you mean 'cuda'?)"),
            (2, 62, "hardware_test: num_cards: must be a whole number, not a boolean (True)"),
        ],
    ),
    "in a default": (
        "def helper(marks=hardware_marks(res={})): pass",
        [(1, 37, "hardware_marks: res: names no platform (known: cuda, rocm, xpu, npu, musa, cpu)")],
    ),
    "in a class of a class": (
        "class TestA:\n    class TestB:\n        pytestmark = hardware_marks(rez={})",
        [
            (3, 22, "hardware_marks: res: missing; name a platform and a SKU, as res={'cuda': 'H100'}"),
            (3, 41, "hardware_marks: rez: unknown argument (did you mean 'res'?)"),
        ],
    ),
    "a platform twice": (
        "@hardware_test(res={'cuda': 'L4', 'cuda': 'H100'})\ndef test_a(): pass",
        [(1, 35, "hardware_test: res: 'cuda' stands twice; the first is lost")],
    ),
    "bare": ("@hardware_test\ndef test_a(): pass", [(1, 2, f"hardware_test: {Misuse.BARE}")]),
    "positional": (
        "@hardware_test({'cuda': 'L4'})\ndef test_a(): pass",
        [(1, 2, f"hardware_test: {Misuse.POSITIONAL}")],
    ),
    "list as a decorator": (
        "@hardware_marks(res={'cuda': 'L4'})\ndef test_a(): pass",
        [(1, 2, f"hardware_marks: {Misuse.AS_DECORATOR}")],
    ),
    "mark by hand": (
        "@pytest.mark.hardware(res={'cuda': 'L4'})\ndef test_a(): pass",
        [(1, 2, f"pytest.mark.hardware: {Misuse.BY_HAND}")],
    ),
    "twice": (
        "@hardware_test(res={'cuda': 'L4'})\n@hardware_test(res={'rocm': 'MI300'})\ndef test_a(): pass",
        [(2, 2, f"hardware_test: {Misuse.TWICE}")],
    ),
    "two parameters": (
        (
            "@pytest.mark.parametrize('x', [pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}))])\n"
            "@pytest.mark.parametrize('y', [pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}))])\n"
            "def test_a(x, y): pass"
        ),
        [(2, 54, f"hardware_marks: {Misuse.TWO_PARAMETERS}")],
    ),
    "variants and a parameter": (
        (
            "@hardware_test(res={'cuda': 'L4', 'cpu': 'any'}, expand='platform')\n"
            "@pytest.mark.parametrize('x', [1, pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}))])\n"
            "def test_a(x): pass"
        ),
        [(2, 57, f"hardware_marks: {Misuse.MIXED}")],
    ),
    "variants of a parameter": (
        (
            "@pytest.mark.parametrize('x', [pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}, expand='platform'))])\n"
            "def test_a(x): pass"
        ),
        [(1, 54, f"hardware_marks: {Misuse.NOT_EXPANDED}")],
    ),
    "bare SKU": ("@pytest.mark.H100\ndef test_a(): pass", [(1, 2, NO_CARDS)]),
    "bare SKU of an async test": ("@pytest.mark.H100\nasync def test_a(): pass", [(1, 2, NO_CARDS)]),
    "bare SKU behind an alias": ("big = pytest.mark.H100\n@big\ndef check(): pass", [(1, 7, NO_CARDS)]),
    "bare SKU in a condition": ("if 1:\n    @pytest.mark.H100\n    def test_a(): pass", [(2, 6, NO_CARDS)]),
    "module told once": (
        "pytestmark = [pytest.mark.H100]\ndef test_a(): pass\ndef test_b(): pass",
        [(1, 15, NO_CARDS)],
    ),
    "one named parameter of two": (
        "BIG = pytest.param(2, marks=pytest.mark.H100)\n@pytest.mark.parametrize('x', [1, BIG])\ndef test_a(x): pass",
        [(1, 29, NO_CARDS)],
    ),
    "values by name": (
        (
            "@pytest.mark.H100\n@pytest.mark.parametrize(argnames='x', argvalues=[1, OmniServerParams()])\n"
            "def test_a(x): pass"
        ),
        [(1, 2, NO_CARDS)],
    ),
    "one parameter of two": (
        "@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.H100)])\ndef test_a(x): pass",
        [(1, 57, NO_CARDS)],
    ),
    "umlauts before it": (
        "@pytest.mark.parametrize('ä', ['ü', pytest.param(2, marks=pytest.mark.H100)])\ndef test_a(ä): pass",
        [(1, 59, NO_CARDS)],
    ),
    "beside a requirement": (
        "pytestmark = hardware_marks(res={'cuda': 'L4', 'rocm': 'MI300'})\n@pytest.mark.cuda\ndef test_a(): pass",
        [
            (
                2,
                2,
                (
                    "cuda by hand would stay on the test on rocm, where cuda L4 or rocm MI300 does not give it; remove it, "
                    "the requirement puts it on where it applies"
                ),
            )
        ],
    ),
    "beside one variant": (
        "@pytest.mark.cuda\n@hardware_test(res={'cuda': 'L4', 'rocm': 'MI300'}, expand='platform')\ndef test_a(): pass",
        [(1, 2, "cuda by hand contradicts rocm MI300, which the test requires; remove one of the two")],
    ),
    "beside the requirement of a parameter": (
        (
            "@pytest.mark.cpu\n@pytest.mark.parametrize('x', [pytest.param(1, marks=hardware_marks(res={'cuda': 'L4'}))])\n"
            "def test_a(x): pass"
        ),
        [(1, 2, "cpu by hand contradicts cuda L4, which the test requires; remove one of the two")],
    ),
}


@pytest.mark.parametrize(("source", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_where_it_stands(source, expected):
    assert findings(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "pytestmark = pytest.mark.cpu\n@pytest.mark.cuda\ndef test_a(): pass",
        "pytestmark = [pytest.mark.slow, pytest.mark.cpu]\nclass TestA:\n    @pytest.mark.cuda\n    def test_a(self): pass",
        "@pytest.mark.cpu\nclass TestA:\n    @pytest.mark.cuda\n    def test_a(self): pass",
        "@pytest.mark.cpu\n@pytest.mark.cuda\nclass TestA:\n    def test_a(self): pass",
        "@pytest.mark.cpu\nclass Base: pass\nclass TestA(Base):\n    @pytest.mark.cuda\n    def test_a(self): pass",
        "@pytest.mark.cpu\n@pytest.mark.cuda\n@unknown\ndef test_a(): pass",
        "from marks import more\npytestmark = [*more, pytest.mark.cuda] + [pytest.mark.cpu]\ndef test_a(): pass",
        "both = (pytest.mark.cuda, pytest.mark.cpu)\npytestmark = both\ndef test_a(): pass",
    ],
)
def test_cpu_and_a_device_meet_on_module_class_and_function(source):
    ((_, _, message),) = findings(source)
    assert message.startswith(CPU_CUDA)


@pytest.mark.parametrize(
    ("head", "mark", "declare"),
    [
        ("import pytest as pt\nimport pytest_omni as po\n", "pt.mark", "po.hardware_test"),
        ("from pytest import mark\nfrom pytest_omni import hardware_test as ht\n", "mark", "ht"),
        ("from pytest import mark as m\nimport pytest_omni.marks\n", "m", "pytest_omni.marks.hardware_test"),
        ("import pytest\nimport pytest_omni.marks as om\nm = pytest.mark\n", "m", "om.hardware_test"),
        (
            "import pytest\nfrom pytest_omni.marks import hardware_test\nht = hardware_test\n",
            "pytest.mark",
            "ht",
        ),
        (
            "try:\n    import pytest\n    import pytest_omni\nfinally: pass\n",
            "pytest.mark",
            "pytest_omni.hardware_test",
        ),
    ],
)
def test_aliases_are_followed(head, mark, declare):
    source = f"@{mark}.H100\ndef test_a(): pass\n@{declare}(res={{}})\ndef test_b(): pass"
    assert [line for line, _, _ in findings(source, head)] == [1, 3]


def test_names_of_others_are_not_ours():
    head = "from mine import hardware_test\nfrom . import pytest\n"
    assert findings("@hardware_test(res={})\n@pytest.mark.H100\ndef test_a(): pass", head) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("def test_a(:\n", 1, "not Python: "),
        ("x = 1\n  y = 2\n", 2, "not Python: unexpected indent"),
        ("x = '\0'", 1, "not Python: source code string cannot contain null bytes"),
        ("pytestmark = " + "(" * 3000 + ")" * 3000, 1, "not "),
    ],
)
def test_a_file_that_is_no_python_is_a_finding(text, line, message):
    (found,) = check_source(text, "test_a.py")
    assert (found.path, found.line) == ("test_a.py", line)
    assert found.message.startswith(message)


def test_an_odd_escape_in_a_string_is_not_ours_to_tell():
    assert check_source("x = '\\d'", "test_a.py") == []


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 20), st.sampled_from(["any", "gpu", "cuda", "L4", "40GiB"])
)
VALUES = st.one_of(
    JUNK, st.lists(JUNK, max_size=3), st.dictionaries(JUNK, st.one_of(JUNK, st.lists(JUNK)), max_size=3)
)


@given(st.dictionaries(st.sampled_from(["res", "num_cards", "min_memory", "expand", "rez"]), VALUES))
def test_literals_are_judged_as_they_are_at_run_time(arguments):
    written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    found = findings(f"@hardware_test({written})\ndef test_a(): pass")
    assert sorted(message for _, _, message in found) == sorted(
        {f"hardware_test: {problem}" for problem in call_problems(arguments)}
    )


def test_the_command_lists_findings_and_leaves_with_3(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.omni.skus]\ncuda = ['GB300']\n")
    (tmp_path / "tests" / ".hidden").mkdir(parents=True)
    bad = (
        "from pytest_omni import hardware_test\n@hardware_test(res={'cuda': 'GB3000'})\ndef test_a(): pass\n"
    )
    (tmp_path / "tests" / "test_b.py").write_text(bad)
    (tmp_path / "tests" / "test_a.py").write_text(bad.replace("GB3000", "GB300"))
    (tmp_path / "tests" / ".hidden" / "test_c.py").write_text(bad)
    (tmp_path / "tests" / "latin.py").write_bytes(b"# caf\xe9\n")
    assert main(["tests", "tests/test_b.py"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == [
        "tests/test_b.py:2:20: hardware_test: res['cuda']: unknown SKU 'GB3000' (did you mean 'GB300'?)"
    ]
    assert out.startswith("tests/latin.py:1:1: not readable as Python: ")
    assert err == "3 files read, 2 findings\n"
    assert main(["tests/test_a.py"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["test", "tests"]) == 2
    assert capsys.readouterr().err == "test: no such file or folder\n"
