from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni.config.attention import (
    BACKEND_FLAG,
    ENVIRONMENT,
    AttentionConfig,
    AttentionSpec,
    Source,
    from_environment,
    parse,
)
from omni.errors import AttentionError, InputError

ROLE = "ltx2.audio_to_video"
NESTED = {"per_role": {"ltx2": {"audio_to_video": {"backend": "REFERENCE"}}}}


class Environment(Mapping[str, str]):
    """An environment that counts how often it is looked at."""

    def __init__(self, **values: str) -> None:
        self._values = values
        self.reads = 0

    def __getitem__(self, name: str) -> str:
        self.reads += 1
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(NESTED, id="dotted flags, gathered"),
        pytest.param(json.dumps(NESTED), id="JSON"),
        pytest.param(json.dumps({"per_role": {ROLE: "reference"}}), id="JSON, dotted role"),
        pytest.param({"per-role": {"ltx2": {"audio_to_video": "REFERENCE"}}}, id="kebab flags"),
        pytest.param({"per_role": {ROLE: AttentionSpec("REFERENCE")}}, id="Python"),
        pytest.param(AttentionConfig(per_role={ROLE: AttentionSpec("reference")}), id="Python, ready"),
    ],
)
def test_one_parser_reads_every_form(form: Any) -> None:
    config = parse(form)

    assert config == AttentionConfig(per_role={ROLE: AttentionSpec("REFERENCE")})
    assert config.resolve(ROLE, "cross") == (AttentionSpec("REFERENCE"), Source.EXACT)


def test_the_environment_gives_the_role_its_backend_through_the_default() -> None:
    config = from_environment(None, None, {ENVIRONMENT: "reference"})

    assert config.resolve(ROLE) == (AttentionSpec("REFERENCE"), Source.DEFAULT)


def test_precedence_is_role_category_default_platform() -> None:
    config = parse({"default": "A", "per_role": {"wan.cross": "B", "cross": "C"}})

    assert config.resolve("wan.cross", "cross") == (AttentionSpec("B"), Source.EXACT)
    assert config.resolve("wan.cross_image", "cross") == (AttentionSpec("C"), Source.CATEGORY)
    assert config.resolve("wan.self", "self") == (AttentionSpec("A"), Source.DEFAULT)
    assert parse({"per_role": {"cross": "C"}}).resolve("wan.self", "self") == (None, Source.PLATFORM)


@pytest.mark.parametrize("nothing", [None, {}, "{}", "auto", {"default": "auto"}, {"per_role": {}}])
def test_nothing_asked_for_is_not_explicit(nothing: Any) -> None:
    assert parse(nothing) == AttentionConfig()
    assert not parse(nothing).is_explicit


def test_auto_roles_are_dropped_and_fall_to_the_default() -> None:
    config = parse({"default": "A", "per_role": {"self": "auto", "cross": {"backend": "Auto"}}})

    assert dict(config.per_role) == {}
    assert config.resolve("x", "self") == (AttentionSpec("A"), Source.DEFAULT)


def test_the_backend_flag_is_the_default() -> None:
    config = from_environment({"per_role": {"self": "B"}}, "sdpa", {})

    assert config.default == AttentionSpec("SDPA")
    assert config.default is not None
    assert config.default.origin == BACKEND_FLAG
    assert dict(config.per_role) == {"self": AttentionSpec("B")}


def test_the_backend_flag_beside_a_default_is_refused() -> None:
    with pytest.raises(AttentionError, match=r"--diffusion-attention-backend B and default = A both set"):
        from_environment({"default": "A"}, "B", {})


def test_the_backend_flag_auto_changes_nothing() -> None:
    assert from_environment({"default": "A"}, "auto", {}).default == AttentionSpec("A")


def test_the_environment_is_read_once_and_only_without_a_default() -> None:
    environ = Environment(**{ENVIRONMENT: "E"})
    config = from_environment({"per_role": {"self": "B"}}, None, environ)
    again = from_environment(config, None, environ)

    assert config.default == AttentionSpec("E")
    assert again == config
    assert environ.reads == 1
    for given_default in ({"default": "A"}, "A"):
        unread = Environment(**{ENVIRONMENT: "E"})
        assert from_environment(given_default, None, unread).default == AttentionSpec("A")
        assert unread.reads == 0
    unread = Environment(**{ENVIRONMENT: "E"})
    assert from_environment(None, "A", unread).default == AttentionSpec("A")
    assert unread.reads == 0


@pytest.mark.parametrize("value", ["", "  ", "auto", "AUTO"])
def test_an_empty_or_auto_environment_is_no_wish(value: str) -> None:
    assert from_environment(None, None, {ENVIRONMENT: value}).default is None


def test_parsing_does_not_see_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "E")

    assert parse({}).default is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"defautl": "A"},
            r"unknown key 'defautl' \(did you mean 'default'\?\); valid keys: default, per_role",
        ),
        ({"per_role": {"self": {}}}, r"per_role\.self: is empty"),
        ({"per_role": {"self": 3}}, r"per_role\.self: expected a backend's name or a mapping .* got int 3"),
        ({"per_role": {"self": None}}, r"per_role\.self: expected"),
        ({"per_role": {"self": ["A"]}}, r"per_role\.self: expected .* got list"),
        ({"per_role": ["A"]}, r"per_role: expected a mapping of roles"),
        ({"per_role": {"ltx2": {"backend": "A", "audio_to_video": "B"}}}, r"cannot hold child roles"),
        ({"per_role": {"self": {"backend": "A", "quant": {}}}}, r"unknown key 'quant'.*valid keys: backend"),
        ({"per_role": {"self": {"backend": 1}}}, r"per_role\.self\.backend: expected a backend's name"),
        ({"per_role": {"self": {"backend": ""}}}, r"per_role\.self\.backend: expected a backend's name"),
        ({"per_role": {"a.b": "A", "a": {"b": "B"}}}, r"per_role\.a\.b is given twice"),
        ({"per_role": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": "A"}}}}}}}}}}, r"nested deeper"),
        ({"per_role": {"": "A"}}, r"without empty parts"),
        ({"per_role": {"a..b": "A"}}, r"without empty parts"),
        ({"per_role": {1: "A"}}, r"role names as text"),
        ({"per_role": {}, "per-role": {}}, r"per_role is given twice"),
        ({"default": {}}, r"default: is empty"),
        ({"default": {"quant": {}}}, r"default: unknown key 'quant'; valid keys: backend"),
        ({"default": 1}, r"default: expected a backend's name"),
        (3, r"expected a mapping, its JSON text, or a backend's name, got int"),
        ("[1]", r"expected a mapping, .* got list"),
        ('{"default": }', r"not JSON at line 1, column 13"),
        ('{"default": "A", "default": "B"}', r"key 'default' is given twice"),
        ('{"a":' * 100_000, r"nested deeper|not JSON"),
        ("", r"expected a backend's name"),
    ],
)
def test_wrong_configurations_name_the_place(value: Any, message: str) -> None:
    with pytest.raises(AttentionError, match=message) as caught:
        parse(value)

    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == 2


def test_values_that_are_not_specs_are_refused_in_python_too() -> None:
    with pytest.raises(AttentionError, match=r"self: expected an AttentionSpec"):
        AttentionConfig(per_role={"self": "REFERENCE"})  # type: ignore[dict-item]


def test_a_configuration_cannot_be_changed_through_what_it_was_made_from() -> None:
    roles = {"self": AttentionSpec("A")}
    config = AttentionConfig(per_role=roles)
    roles["cross"] = AttentionSpec("B")

    assert "cross" not in config.per_role
    with pytest.raises(TypeError):
        config.per_role["cross"] = AttentionSpec("B")  # type: ignore[index]


_words = st.text("abcdefgh_0123", min_size=1, max_size=6).filter(lambda word: word != "backend")
_names = st.sampled_from(["TORCH_SDPA", "REFERENCE", "torch_sdpa", "auto"])
_roles = st.dictionaries(st.lists(_words, min_size=1, max_size=3).map(tuple), _names, max_size=5)


def _is_prefix_free(roles: dict[tuple[str, ...], str]) -> bool:
    return not any(a != b and b[: len(a)] == a for a in roles for b in roles)


@settings(max_examples=50)
@given(_roles.filter(_is_prefix_free), st.none() | _names)
def test_dotted_nested_and_json_forms_agree(roles: dict[tuple[str, ...], str], default: str | None) -> None:
    nested: dict[str, Any] = {}
    for path, backend in roles.items():
        node = nested
        for part in path:
            node = node.setdefault(part, {})
        node["backend"] = backend
    flat = {".".join(path): backend for path, backend in roles.items()}
    configs = [
        parse({"default": default, "per_role": nested}),
        parse({"default": default, "per_role": flat}),
        parse(json.dumps({"default": default, "per_role": nested})),
    ]

    assert configs[0] == configs[1] == configs[2]
    assert set(configs[0].per_role) == {role for role, backend in flat.items() if backend != "auto"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["default", "per_role", "backend", "x"]), inner, max_size=3)
    ),
)


@settings(max_examples=50)
@given(_json | _json.map(json.dumps))
def test_any_value_is_a_configuration_or_a_message(value: Any) -> None:
    try:
        config = parse(value)
    except AttentionError:
        return
    assert all(spec.backend == spec.backend.upper() for spec in config.specs)
