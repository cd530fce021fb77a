from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omni_ci.repository.watching import PathIndex
from omni_ci.selection.watches import Watch, Watched, watch_of
from omni_ci.yaml.loading import load_pipeline
from omni_ci.yaml.registry import load_registry

REGISTRY = load_registry(
    "schema: 1\nsource_file_dependencies:\n  engine: [omni/engine/, '!omni/engine/vendored']\n", name="d.yml"
)


TREE = PathIndex(
    ["omni/engine/core.py", "omni/engine/vendored/b.py", "omni/a/x.py", "omni/b.py", "docs/a.md"]
)


def watched(text: str) -> Watch:
    ((group, leaf),) = load_pipeline(text, name="p.yml").leaves()
    return watch_of(group, leaf, REGISTRY)


def covers(text: str, *paths: str) -> list[bool]:
    return [watched(text).covers(path) for path in paths]


def test_a_list_covers_what_lies_under_it_and_not_what_it_excludes():
    text = (
        "steps:\n- {label: A, source_file_dependencies: [engine, a.py, '!omni/engine/x.py'], commands: [x]}\n"
    )
    paths = (
        "omni/engine/core.py",
        "omni/engine/vendored/b.py",
        "omni/engine/x.py",
        "a.py",
        "a.pyc",
        "omni/other.py",
    )
    assert covers(text, *paths) == [True, False, False, True, False, False]


def test_a_list_of_exclusions_covers_all_else():
    text = "steps:\n- {label: A, source_file_dependencies: ['!docs/'], commands: [x]}\n"
    assert covers(text, "omni/a.py", "docs/a.md") == [True, False]


def test_a_groups_list_gates_the_steps():
    text = (
        "steps:\n- group: G\n  source_file_dependencies: [omni/]\n"
        "  steps: [{label: A, source_file_dependencies: [omni/a/, tests/], commands: [x]}]\n"
    )
    assert covers(text, "omni/a/x.py", "omni/b.py", "tests/t.py") == [True, False, False]


def test_a_folder_is_reached_where_a_path_in_it_counts():
    watch = watched(
        "steps:\n- {label: A, source_file_dependencies: [engine, omni/b.py, omni/gone/], commands: [x]}\n"
    )
    folders = ("omni", "omni/engine", "omni/engine/vendored", "omni/a", "omni/gone", "docs")
    assert [watch.reaches(folder, TREE) for folder in folders] == [True, True, False, False, False, False]


def test_a_folder_is_reached_through_the_groups_list_too():
    watch = watched(
        "steps:\n- group: G\n  source_file_dependencies: [omni/a/, docs/]\n"
        "  steps: [{label: A, source_file_dependencies: [omni/], commands: [x]}]\n"
    )
    assert [watch.reaches(folder, TREE) for folder in ("omni", "omni/a", "omni/engine", "docs")] == [
        True, True, False, False,
    ]  # fmt: skip


names = st.sampled_from(["a", "ab", "b"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
lists = st.lists(st.builds(Watched, paths, st.lists(paths, max_size=2).map(tuple)), min_size=1, max_size=3)


@given(st.lists(lists.map(tuple), min_size=1, max_size=2), st.lists(paths, max_size=6), paths)
def test_reaching_a_folder_is_covering_one_of_its_paths(entries, tree, folder):
    watch = Watch(tuple(entries))
    inside = [path for path in tree if path == folder or path.startswith(f"{folder}/")]
    assert watch.reaches(folder, PathIndex(tree)) == any(map(watch.covers, inside))


def test_a_step_without_any_list_watches_nothing():
    ((group, leaf),) = load_pipeline("steps:\n- {label: A, commands: [x]}\n", name="p.yml").leaves()
    assert not watch_of(group, leaf, REGISTRY).is_declared
