"""The prefix index answers as a walk over all paths would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.repository.watching import PathIndex

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
