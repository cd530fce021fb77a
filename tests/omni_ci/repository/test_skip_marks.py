"""Whether a diff of a test file only adds skip marks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.repository.skip_marks import only_adds_skips

BASE = '''\
import pytest

pytestmark = [pytest.mark.core_model, pytest.mark.cuda]


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one(size):
    """Says something."""
    value = size + 1
    if value > 2:
        assert value
    assert value


class TestTwo:
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a card")
    def test_three(self):
        assert True

    @pytest.mark.skip(reason="flaky")
    async def test_four(self):
        assert True
'''
WHOLE_MODULE = "import pytest\n\npytestmark = [pytest.mark.cuda, pytest.mark.skip(reason='not yet')]\n\n\ndef test_a():\n    assert 1\n"


def edited(*edits: tuple[str, str], base: str = BASE) -> bool:
    head = base
    for old, new in edits:
        assert old in head, old
        head = head.replace(old, new, 1)
    return only_adds_skips(base, head)


ONE = '@pytest.mark.parametrize("size"'
ADDED = {
    "a decorator": (ONE, f"@pytest.mark.skip\n{ONE}"),
    "a decorator with a reason": (ONE, f'@pytest.mark.skip(reason="later")\n{ONE}'),
    "over several lines": (
        ONE,
        f'@pytest.mark.skipif(\n    sys.platform == "win32",\n    reason="no",\n)\n{ONE}',
    ),
    "on a class": ("class TestTwo", '@pytest.mark.skip("all of it")\nclass TestTwo'),
    "beside another on a method": (
        "    async def",
        "    @pytest.mark.skipif(True, reason='x')\n    async def",
    ),
    "a call": ("    value = size + 1\n", '    pytest.skip("not here")\n    value = size + 1\n'),
    "a call in a branch": (
        "        assert value\n    assert",
        '        pytest.skip("n")\n        assert value\n    assert',
    ),
    "a call for the module": (
        "\n\npytestmark",
        "\n\npytest.skip('no', allow_module_level=True)\n\npytestmark",
    ),
    "to the module's marks": ("pytest.mark.cuda]", "pytest.mark.cuda, pytest.mark.skip(reason='x')]"),
    "a mark a line": (
        "[pytest.mark.core_model, pytest.mark.cuda]",
        "[\n    pytest.mark.core_model,\n    pytest.mark.cuda,\n    pytest.mark.skip(\n        reason='x'\n    ),\n]",
    ),
    "marks for a class": ("class TestTwo:\n", "class TestTwo:\n    pytestmark = pytest.mark.skip\n\n"),
    "to a parameter": ("marks=pytest.mark.slow", "marks=[pytest.mark.slow, pytest.mark.skip]"),
    "another reason": ('reason="flaky"', 'reason="flaky, see #12"'),
    "always instead of sometimes": (
        '@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a card")',
        "@pytest.mark.skip",
    ),
    "comments and blank lines": ("    value = size + 1\n", "    # why\n\n    value = size + 1  # how\n"),
    "only the shape": ("value = size + 1", "value = (\n        size\n        + 1\n    )"),
}
CHANGED = {
    "an assertion": ("assert True", "assert not False"),
    "a new assertion": ("    assert value\n", "    assert value\n    assert size\n"),
    "a sibling decorator": ('"size", [1,', '"size", [0, 1,'),
    "a sibling mark": ("pytest.mark.cuda]", "pytest.mark.rocm]"),
    "a mark taken away": (", pytest.mark.cuda]", "]"),
    "a skip taken away": ('    @pytest.mark.skip(reason="flaky")\n', ""),
    "a condition taken away": (
        '    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a card")\n',
        "",
    ),
    "another condition": ("not torch.cuda.is_available()", "torch.cuda.device_count() < 2"),
    "sometimes instead of always": (
        '@pytest.mark.skip(reason="flaky")',
        "@pytest.mark.skipif(x, reason='flaky')",
    ),
    "a new import": ("import pytest\n", "import pytest\nimport sys\n"),
    "a condition around a skip": (
        "    value = size + 1\n",
        "    if size:\n        pytest.skip('x')\n    value = size + 1\n",
    ),
    "an xfail": (ONE, f"@pytest.mark.xfail\n{ONE}"),
    "an importorskip": ("    value = size + 1\n", "    pytest.importorskip('x')\n    value = size + 1\n"),
    "a skip that sets a name": (ONE, f"@pytest.mark.skipif(size := True, reason='x')\n{ONE}"),
    "a reason that sets a name": (ONE, f"@pytest.mark.skip(reason=(size := 'x'))\n{ONE}"),
    "a docstring": ("Says something.", "Says something else."),
    "a second pytestmark": (
        "\n\n\n@pytest",
        "\npytestmark = [pytest.mark.skipif(x, reason='')]\n\n\n@pytest",
    ),
    "an empty pytestmark": ("class TestTwo:\n", "class TestTwo:\n    pytestmark = []\n\n"),
    "a mark of another library": (ONE, f"@other.mark.skip\n{ONE}"),
    "a called mark": (ONE, f"@pytest.mark.skip(reason='x')(lambda f: f)\n{ONE}"),
    "a parameter": ("pytest.param(2", "pytest.param(3"),
    "a new test, skipped": (
        "class TestTwo",
        "@pytest.mark.skip\ndef test_new():\n    assert 0\n\n\nclass TestTwo",
    ),
    "a local of that name": (
        "    value = size + 1\n",
        "    pytestmark = pytest.mark.skip\n    value = size + 1\n",
    ),
    "a renamed test": ("def test_one", "def test_uno"),
}


@pytest.mark.parametrize("what", ADDED)
def test_an_added_skip_is_nothing_to_run(what: str) -> None:
    assert edited(ADDED[what])


@pytest.mark.parametrize("what", CHANGED)
def test_anything_else_is(what: str) -> None:
    assert not edited(CHANGED[what])


@pytest.mark.parametrize("what", CHANGED)
def test_a_skip_beside_it_hides_no_change(what: str) -> None:
    assert not edited(CHANGED[what], ("class TestTwo", "@pytest.mark.skip\nclass TestTwo"))


def test_what_is_skipped_no_longer_is_to_run() -> None:
    """Taking a skip away touches nothing but skip lines, and yet a test runs now that did not."""
    skipped = BASE.replace("class TestTwo", "@pytest.mark.skip\nclass TestTwo")
    assert only_adds_skips(BASE, skipped)
    assert not only_adds_skips(skipped, BASE)


def test_a_moved_skip_unskips_where_it_was() -> None:
    inner = "def test():\n    if x:\n        a()\n        pytest.skip('x')\n    b()\n"
    outer = "def test():\n    if x:\n        a()\n    pytest.skip('x')\n    b()\n"
    assert not only_adds_skips(inner, outer)
    assert not only_adds_skips(outer, inner)
    assert not only_adds_skips("pytest.skip('x')\na()\n", "a()\npytest.skip('x')\n")


def test_one_mark_means_the_same_in_a_list() -> None:
    base = "pytestmark = pytest.mark.cuda\n"
    assert only_adds_skips(base, "pytestmark = [pytest.mark.cuda, pytest.mark.skip]\n")
    assert only_adds_skips("pytestmark = [MINE]\n", "pytestmark = [MINE, pytest.mark.skip]\n")
    # MINE may be a list: nested it is no mark
    assert not only_adds_skips("pytestmark = MINE\n", "pytestmark = [MINE, pytest.mark.skip]\n")


@pytest.mark.parametrize(
    ("text", "is_skipped"),
    [
        (WHOLE_MODULE, True),
        (
            WHOLE_MODULE.replace(
                "[pytest.mark.cuda, pytest.mark.skip(reason='not yet')]", "pytest.mark.skip"
            ),
            True,
        ),
        (WHOLE_MODULE.replace("skip(", "skipif(x, "), False),
        (WHOLE_MODULE.replace("pytest.mark.cuda, ", "pytest.mark.cuda]\npytestmark = ["), False),
        (WHOLE_MODULE.replace("pytestmark", "marks"), False),
        ("import pytest\n\n\n@pytest.mark.skip\ndef test_a():\n    assert 1\n", False),
        ("def f():\n    pytestmark = pytest.mark.skip\n", False),
        ("class TestA:\n    pytestmark = pytest.mark.skip\n", False),
        ("# pytestmark = pytest.mark.skip\n", False),
        ('"""\npytestmark = pytest.mark.skip\n"""\n', False),
    ],
)
def test_a_new_file_counts_when_all_of_it_is_skipped(text: str, is_skipped: bool) -> None:
    assert only_adds_skips(None, text) is is_skipped
    assert not only_adds_skips(None, text, may_be_new=False)


@pytest.mark.parametrize(
    "hostile",
    [
        "def (",
        "\x00",
        "a = '\udcff'",
        "(" * 5000,
        "-" * 100_000 + "1",
        "x = " + "+".join(["1"] * 20_000),
        "  indented",
    ],
)
def test_what_cannot_be_read_never_qualifies(hostile: str) -> None:
    assert not only_adds_skips(None, hostile)
    assert not only_adds_skips(hostile, hostile)
    assert not only_adds_skips(BASE, hostile)
    assert not only_adds_skips(hostile, BASE)


def test_a_deleted_file_is_a_change() -> None:
    assert not only_adds_skips(BASE, None)
    assert not only_adds_skips(None, None)


def test_a_doubtful_escape_is_no_warning() -> None:
    assert only_adds_skips("x = '\\d'\n", "# why\nx = '\\d'\n")


@given(
    st.lists(st.sampled_from(sorted(ADDED)), unique=True, max_size=5),
    st.sampled_from([None, *sorted(CHANGED)]),
)
@settings(max_examples=60, deadline=None)
def test_any_additions_qualify_until_one_change_comes_along(added: list[str], changed: str | None) -> None:
    head = BASE
    for what in added:
        head = head.replace(*ADDED[what], 1)
    if changed is not None:
        old, new = CHANGED[changed]
        before, head = head, head.replace(old, new, 1)
        may_be_held = {
            "sometimes instead of always",
            "another condition",
            "a condition taken away",
            "a skip taken away",
        }
        if before == head or changed in may_be_held:
            return  # an addition may have taken its place, or hold the same test back
    assert only_adds_skips(BASE, head) is (changed is None)


@pytest.mark.parametrize(
    "after", ["pytestmark: list = []", "del pytestmark", "if True:\n    pytestmark = []", "pytestmark += []"]
)
def test_a_new_file_that_takes_its_skip_back_runs(after: str) -> None:
    assert only_adds_skips(None, WHOLE_MODULE)
    assert not only_adds_skips(None, f"{WHOLE_MODULE}\n\n{after}\n")


@pytest.mark.parametrize(
    "skip",
    [
        "@pytest.mark.skipif(__import__('os').system('true'), reason='x')",
        "@pytest.mark.skip(reason=open('x', 'w').write('1'))",
        "@pytest.mark.skipif(setup(), reason='x')",
    ],
)
def test_a_skip_that_runs_code_is_a_change(skip: str) -> None:
    assert not edited((ONE, f"{skip}\n{ONE}"))
    assert edited((ONE, f"@pytest.mark.skipif(torch.cuda.device_count() < 2, reason='x')\n{ONE}"))
