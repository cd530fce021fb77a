"""The prefix index answers as a walk over all paths would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.repository.watching import Links, PathIndex

PATHS = st.lists(st.sampled_from(["a", "b", "a-", "a0", "a.b", "é"]), min_size=1, max_size=3).map("/".join)


def covers(prefix: str, path: str) -> bool:
    return not prefix or path == prefix.rstrip("/") or path.startswith(prefix.rstrip("/") + "/")


@settings(max_examples=200)
@given(
    st.lists(PATHS, max_size=12),
    st.one_of(PATHS, PATHS.map(lambda path: path + "/"), st.just("")),
    st.lists(PATHS, max_size=3),
)
def test_first_under_equals_the_walk(paths: list[str], prefix: str, holes: list[str]) -> None:
    wanted = [
        path for path in paths if covers(prefix, path) and not any(covers(hole, path) for hole in holes)
    ]
    found = PathIndex(paths).first_under(prefix, holes)
    assert (found is None) == (not wanted)
    assert found is None or found in wanted


def test_a_prefix_is_not_a_part_of_a_name() -> None:
    index = PathIndex(["omni_hardware/a.py", "omni.py", "omni-x/b", "Omni/c"])
    assert index.first_under("omni") is None
    assert index.first_under("omni/") is None
    assert index.first_under("omni.py/") == "omni.py"


def test_the_real_path_of_a_name_is_where_its_links_lead() -> None:
    links = Links(targets={"a": "b/c", "x": "a/d"})
    assert [links.real(path) for path in ("a/f.py", "a", "x/f.py", "ab", "b/c/f.py")] == [
        "b/c/f.py",
        "b/c",
        "b/c/d/f.py",
        "ab",
        "b/c/f.py",
    ]


def test_what_starts_with_a_text_is_all_of_it() -> None:
    index = PathIndex(["a", "a/b", "ab", "b", "é", "a/\U0010ffff\U0010ffff"])
    assert index.under("a") == ["a", "a/b", "a/\U0010ffff\U0010ffff", "ab"]
    assert index.under("") == ["a", "a/b", "a/\U0010ffff\U0010ffff", "ab", "b", "é"]
    assert index.under("c") == []
