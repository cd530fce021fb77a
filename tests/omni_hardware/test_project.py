from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_hardware.errors import InputError
from omni_hardware.project import extend, is_armed, load_project, vocabulary_in
from omni_hardware.vocabulary import DEFAULT


@pytest.fixture
def project(tmp_path):
    def write(text: str | bytes):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "pyproject.toml").write_bytes(data)
        return tmp_path

    return write


def test_a_consumers_words_are_added(project):
    root = project(
        """
        [tool.omni]
        levels = ["smoke", "core_model", "deep"]
        topics = ["speech", "diffusion"]
        marks = ["quarantined"]
        [tool.omni.skus]
        cuda = ["GB300", "H100"]
        """
    )
    words = load_project(root)
    assert words.levels == ("smoke", "core_model", "deep")
    assert words.topics == (*DEFAULT.topics, "speech")
    assert words.selection == (*DEFAULT.selection, "quarantined")
    assert words.platform_of("GB300").name == "cuda"
    # what we ship already may be listed: the next release must not break a project
    assert words.platform("cuda").skus == (*DEFAULT.platform("cuda").skus, "GB300")


@pytest.mark.parametrize(
    ("text", "armed"),
    [
        ("[tool.omni]\n", True),
        ("[tool.omni.skus]\ncuda = ['GB300']\n", True),
        ("tool.omni.topics = ['speech']\n", True),
        ("[ tool . omni ]\n", True),
        ("[tool.omniscient]\n", False),
        ("[project]\nname = 'omni'\n", False),
        ("tool = 3 # omni\n", False),
        ("", False),
        ("not toml, and no table of ours either", False),
        ("omni = not toml", False),
    ],
)
def test_armed_is_the_table(project, text, armed):
    assert is_armed(project(text)) is armed


def test_without_a_pyproject_nothing_is_armed(tmp_path):
    assert is_armed(tmp_path) is False
    assert load_project(tmp_path) == DEFAULT
    assert load_project(tmp_path / "pyproject.toml" / "below") == DEFAULT


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("topic = ['a']", "[tool.omni] topic: unknown key (did you mean 'topics'?)"),
        ("zzz = 1", "[tool.omni] zzz: unknown key (known: skus, levels, topics, marks)"),
        ("levels = 'core'", "[tool.omni] levels: must be a list of names, not a string"),
        ("levels = []", "[tool.omni] levels: needs at least one run level, shallow to deep"),
        ("topics = [1]", "[tool.omni] topics: 1 is a number, not a name; put it in quotes"),
        ("topics = [true]", "[tool.omni] topics: True is a boolean, not a name; put it in quotes"),
        ("topics = ['a b']", "[tool.omni] topics: 'a b' cannot be a marker: letters, digits and _ . - only"),
        ("topics = ['']", "[tool.omni] topics: '' cannot be a marker: letters, digits and _ . - only"),
        ("marks = ['not']", "[tool.omni] marks: 'not' is a word of -m expressions"),
        ("marks = ['skipif']", "[tool.omni] marks: 'skipif' is a marker of pytest's own"),
        ("marks = ['hardware']", "[tool.omni] marks: 'hardware' is the marker that hardware_test writes"),
        ("marks = ['x', 'x']", "[tool.omni] marks: 'x' is listed twice"),
        ("topics = ['cuda']", "[tool.omni] topics: 'cuda' is already in platforms"),
        ("topics = ['H100']", "[tool.omni] topics: 'H100' is already in skus.cuda"),
        ("topics = ['slow']", "[tool.omni] topics: 'slow' is already in marks"),
        ("marks = ['cards_2']", "[tool.omni] marks: 'cards_2' is already in cards"),
        ("marks = ['gpu']", "[tool.omni] marks: 'gpu' is already in platforms"),
        ("skus = ['H100']", "[tool.omni] skus: must be a table of platforms, not a list"),
        ("skus.cude = ['X1']", "[tool.omni] skus.cude: unknown platform (did you mean 'cuda'?)"),
        ("skus.cuda = 'X1'", "[tool.omni] skus.cuda: must be a list of names, not a string"),
        ("skus.cuda = ['MI300']", "[tool.omni] skus.cuda: 'MI300' is already in skus.rocm"),
        (
            "skus.cuda = ['h100']",
            "[tool.omni] skus.cuda: 'h100' is already in skus.cuda (as 'H100'; names must differ by more than case)",
        ),
        (
            "skus.cuda = ['any']",
            "[tool.omni] skus.cuda: 'any' is the SKU of a platform that has none to tell apart",
        ),
        (
            "skus.cpu = ['big']",
            "[tool.omni] skus.cpu: cpu has no SKUs to tell apart, only 'any'; add to another platform",
        ),
    ],
)
def test_each_mistake_names_file_table_and_key(project, table, message):
    root = project(f"[tool.omni]\n{table}\n")
    with pytest.raises(InputError) as caught:
        load_project(root)
    # a word that is missing from the text is told where the table begins
    assert str(caught.value) == f"{root / 'pyproject.toml'}:2: {message}"


def test_a_mistake_is_placed_as_all_others_are(project, monkeypatch):
    root = project(
        "[project]\nname = 'x'\n\n[tool.omni]\nmarks = [\n  'a b',\n]\nlevle = 1\n\n[tool.omni.skus]\ncuda = 'X1'\ncude = []\n"
    )
    monkeypatch.chdir(root)
    with pytest.raises(InputError) as caught:
        load_project(root)
    assert str(caught.value).splitlines() == [
        "pyproject.toml:8: [tool.omni] levle: unknown key (did you mean 'levels'?)",
        "pyproject.toml:5: [tool.omni] marks: 'a b' cannot be a marker: letters, digits and _ . - only",
        "pyproject.toml:12: [tool.omni] skus.cude: unknown platform (did you mean 'cuda'?)",
        "pyproject.toml:11: [tool.omni] skus.cuda: must be a list of names, not a string",
    ]


def test_a_sku_new_to_two_platforms_is_refused(project):
    root = project("[tool.omni.skus]\ncuda = ['X1']\nxpu = ['X1']\n")
    with pytest.raises(InputError, match=r"skus\.xpu: 'X1' is already in skus\.cuda"):
        load_project(root)


def test_all_mistakes_come_at_once(project):
    root = project("[tool.omni]\ntopic = []\nlevels = [3]\nskus.cude = []\n")
    with pytest.raises(InputError) as caught:
        load_project(root)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.omni]\ntopics = [\n", ":2: not TOML: Invalid value"),
        ("[tool.omni]\ntopics = nope\n", ":2:10: not TOML: Invalid value"),
        ("[tool.omni]\na = 1\na = 2\n", ":3:6: not TOML: Cannot overwrite a value"),
        (b"[tool.omni]\n# caf\xe9\n", ":2: not UTF-8, which TOML demands"),
        ("[tool]\nomni = true\n", ":2: [tool] omni: must be a table, not a boolean; write [tool.omni]"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(project, text, message):
    root = project(text)
    with pytest.raises(InputError) as caught:
        load_project(root)
    assert str(caught.value) == f"{root / 'pyproject.toml'}{message}"


@pytest.mark.parametrize("header", ["[tool.omni]", "[tool.omni.skus]", "[[tool.omni]]"])
def test_broken_toml_that_holds_our_table_is_not_taken_for_unarmed(project, header):
    with pytest.raises(InputError, match="not TOML"):
        is_armed(project(f"{header}\ntopics = nope\n"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("[tool]\nomni = true\n", "boolean"), ("tool.omni = ['x']\n", "list"), ("[[tool.omni]]\n", "list")],
)
def test_ours_but_no_table_is_not_taken_for_unarmed(project, text, kind):
    with pytest.raises(
        InputError, match=rf"\[tool\] omni: must be a table, not a {kind}; write \[tool\.omni\]"
    ):
        is_armed(project(text))


NAMES = st.text(st.sampled_from("abXYZ09_.-"), min_size=1, max_size=8)
VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), NAMES, st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
KEYS = st.sampled_from(["levels", "topics", "marks", "skus", "level"])


@settings(max_examples=50)
@given(st.dictionaries(KEYS, st.one_of(VALUES, st.lists(NAMES, max_size=4)), max_size=4))
def test_any_table_is_taken_or_refused_with_a_message_a_line(table):
    words, problems = None, []
    try:
        words = extend(table, source="pyproject.toml")
    except InputError as error:
        problems = str(error).splitlines()
    assert all(line.startswith("pyproject.toml: [tool.omni] ") for line in problems)
    assert bool(problems) == (words is None)
    if words is not None:
        assert words.levels
        assert set(table) <= {"levels", "topics", "marks", "skus"}
        names = [line.partition(":")[0].lower() for line in words.marker_lines()]
        assert len(names) == len(set(names))


def test_a_project_in_utf_16_is_refused_and_not_taken_for_one_without_us(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.omni]\n", encoding="utf-16")
    with pytest.raises(InputError, match="not UTF-8"):
        load_project(tmp_path)


def test_the_text_of_a_file_says_the_same_as_the_file(tmp_path):
    text = '[tool.omni]\ntopics = ["speech"]\n[tool.omni.skus]\ncuda = ["GB300"]\n'
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    found = vocabulary_in(text, source="pyproject.toml")
    assert found == load_project(tmp_path)
    assert found.platform_of("GB300") == found.platform("cuda")
    assert vocabulary_in(None, source="pyproject.toml") == DEFAULT
    assert vocabulary_in("", source="pyproject.toml") == DEFAULT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[tool.omni]\nlevel = []\n",
            "base:pyproject.toml:2: [tool.omni] level: unknown key (did you mean 'levels'?)",
        ),
        (
            "[tool]\nomni = 1\n",
            "base:pyproject.toml:2: [tool] omni: must be a table, not a number; write [tool.omni]",
        ),
        (
            "[tool.omni\n",
            "base:pyproject.toml:1:11: not TOML: Expected ']' at the end of a table declaration",
        ),
        ("[tool.omni]\n# \udcff\n", "base:pyproject.toml:2: not UTF-8, which TOML demands"),
    ],
)
def test_a_text_that_is_wrong_is_named_by_its_source(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        vocabulary_in(text, source="base:pyproject.toml")
    assert str(refused.value) == message
