"""The dependency registry, and the names steps take from it."""

from __future__ import annotations

import textwrap

import pytest

from omni_ci.yaml.loading import LoadError, load_pipeline
from omni_ci.yaml.model import PipelineFile
from omni_ci.yaml.registry import NO_REGISTRY, Registry, check_keys, is_key, load_registry


def registry(text: str) -> Registry:
    return load_registry(textwrap.dedent(text), name="dependencies.yml")


def pipeline(text: str) -> PipelineFile:
    return load_pipeline(textwrap.dedent(text), name="p.yml")


def nothing(_entry: str) -> bool:
    return False


def test_anchors_are_flattened_and_doubles_dropped() -> None:
    loaded = registry("""
        x-engine: &engine [omni/engine/, omni/config/]
        x-more: &more [*engine, omni/hooks.py]
        source_file_dependencies:
          z_image: [*engine, [*more, "!omni/engine/notes/"], pyproject.toml]
          one: omni/
    """)
    assert loaded.keys == {
        "z_image": ("omni/engine/", "omni/config/", "omni/hooks.py", "!omni/engine/notes/", "pyproject.toml"),
        "one": ("omni/",),
    }
    assert loaded.notices == ()


def test_the_schema_need_not_be_written() -> None:
    assert load_registry("source_file_dependencies: {core: [a/]}", name="d.yml").version == 1
    with pytest.raises(LoadError, match=r"d\.yml:1:1: schema is 2; it must be"):
        load_registry("schema: 2\nsource_file_dependencies: {core: [a/]}", name="d.yml")


def test_the_fallback_joins_the_union_with_a_notice() -> None:
    loaded = registry("source_file_dependencies: {source_filter_fallback: [tests/helpers/], a: [b/]}")
    assert loaded.run_all == ("tests/helpers/",)
    assert loaded.keys == {"a": ("b/",)}
    assert "source_filter_fallback" in loaded.notices[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("source_file_dependencies: {a: []}", "1:28: a has no paths"),
        ("source_file_dependencies: {a: }", "a has no paths"),
        ("source_file_dependencies: {a/b: [c]}", "'a/b' would be read as a path"),
        ("source_file_dependencies: {a: [c/*]}", "1:32: a: 'c/*' is a pattern"),
        ("source_file_dependencies: {a: [3]}", "a: 3 is not text"),
        ("source_file_dependencies: {a: [c], a: [d]}", "key 'a' is written twice"),
        ("source_file_dependency: {}", "unknown key (did you mean 'source_file_dependencies'?)"),
        ("schema: 2\nsource_file_dependencies: {a: [b]}", "schema is 2"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, said: str) -> None:
    with pytest.raises(LoadError) as caught:
        registry(text)
    assert said in str(caught.value)


def test_every_unknown_key_is_named_at_its_place_with_the_nearest() -> None:
    loaded = registry("source_file_dependencies: {z_image: [omni/], qwen_image: [omni/]}")
    steps = pipeline("""\
        steps:
          - {label: one, command: a, source_file_dependencies: [omni/, z_imag]}
          - group: g
            source_file_dependencies: qwen_imge
            steps:
              - {command: b, source_file_dependencies: z_image}
              - {command: c}
        """)
    with pytest.raises(LoadError) as caught:
        check_keys((steps,), loaded, nothing)
    assert str(caught.value).splitlines() == [
        "p.yml:2:64: 'one' names the unknown registry key 'z_imag' (did you mean 'z_image'?)",
        "p.yml:4:5: 'g' names the unknown registry key 'qwen_imge' (did you mean 'qwen_image'?)",
    ]


def test_a_bare_word_that_is_a_path_is_no_key() -> None:
    steps = pipeline("steps: [{command: a, source_file_dependencies: [Makefile]}]")
    check_keys((steps,), NO_REGISTRY, lambda entry: entry == "Makefile")
    with pytest.raises(LoadError, match="there is no registry"):
        check_keys((steps,), NO_REGISTRY, nothing)


def test_the_fallback_is_no_key_for_steps() -> None:
    loaded = registry("source_file_dependencies: {source_filter_fallback: [a/]}")
    steps = pipeline("steps: [{command: a, source_file_dependencies: source_filter_fallback}]")
    with pytest.raises(LoadError, match="not a key for steps"):
        check_keys((steps,), loaded, nothing)


@pytest.mark.parametrize(
    ("entry", "key"),
    [("z_image", True), ("a/b", False), ("pyproject.toml", False), ("!z", False), ("tests/", False)],
)
def test_what_is_written_like_a_key(entry: str, key: bool) -> None:
    assert is_key(entry) is key
