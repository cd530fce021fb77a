from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni.cli.dotted import fold
from omni.config.attention import parse
from omni.errors import InputError

OPTION = "--diffusion-attention-config"
ROLE = {"per_role": {"ltx2": {"audio_to_video": {"backend": "X"}}}}


def folded(*argv):
    *rest, option, text = fold(argv, OPTION)
    assert option == OPTION
    return rest, json.loads(text)


@pytest.mark.parametrize(
    "argv",
    [
        (f"{OPTION}.per_role.ltx2.audio_to_video.backend", "X"),
        (f"{OPTION}.per_role.ltx2.audio_to_video.backend=X",),
        (f"{OPTION}.per-role.ltx2.audio_to_video.backend", "X"),
        ("--diffusion_attention_config.per_role.ltx2.audio_to_video.backend", "X"),
        (f"{OPTION}.per_role", '{"ltx2": {"audio_to_video": {"backend": "X"}}}'),
        (f"{OPTION}.per_role.ltx2", '{"audio_to_video": {"backend": "X"}}'),
    ],
)
def test_every_spelling_of_a_nested_role_is_one_mapping(argv):
    assert folded("serve", *argv, "--port", "1") == (["serve", "--port", "1"], ROLE)


def test_the_role_means_the_same_dotted_and_as_json():
    _, mapping = folded(f"{OPTION}.per_role.ltx2.audio_to_video.backend", "TORCH_SDPA")
    text = '{"per_role": {"ltx2.audio_to_video": "TORCH_SDPA"}}'
    assert parse(mapping) == parse(text)
    assert fold([OPTION, text], OPTION) == [OPTION, text]


def test_json_and_dotted_flags_are_one_mapping():
    argv = (OPTION, '{"default": "auto"}', f"{OPTION}.per_role.self", "A", f"{OPTION}.per_role.cross", "B")
    assert folded(*argv)[1] == {"default": "auto", "per_role": {"self": "A", "cross": "B"}}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((f"{OPTION}.default", "A", f"{OPTION}.default", "B"), f"{OPTION}.default is given twice"),
        ((OPTION, '{"default": "A"}', f"{OPTION}.default", "B"), f"{OPTION}.default is given twice"),
        ((f"{OPTION}.default", "A", f"{OPTION}.default.backend", "B"), "is given twice"),
        ((OPTION, '{"default": ', f"{OPTION}.per_role.self", "B"), f"{OPTION}: not JSON"),
        ((OPTION, "TORCH_SDPA", f"{OPTION}.per_role.self", "B"), f"{OPTION}: not JSON"),
        ((OPTION, "[1]", f"{OPTION}.per_role.self", "B"), "must be a JSON object"),
        ((f"{OPTION}.per_role.self", "{"), f"{OPTION}.per_role.self: not JSON"),
        ((f"{OPTION}.per_role.self",), "needs a value"),
        (
            (OPTION, '{"default": "A", "default": "B"}', f"{OPTION}.per_role.self", "C"),
            "'default' is given twice",
        ),
        ((f"{OPTION}.per_role", '{"self": "A", "self": "B"}'), "'self' is given twice"),
        ((f"{OPTION}.per_role", '{"a":' * 100_000), "nested deeper"),
    ],
)
def test_what_cannot_be_one_mapping_is_refused(argv, says):
    with pytest.raises(InputError) as refused:
        fold(argv, OPTION)
    assert says in str(refused.value)


def test_nothing_after_the_end_of_options_is_touched():
    argv = ["generate", "--", f"{OPTION}.default", "A"]
    assert fold(argv, OPTION) == argv


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
TREES = st.recursive(
    st.dictionaries(NAMES, st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    max_leaves=6,
)


def leaves(tree, path=()):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


@settings(max_examples=50)
@given(tree=TREES)
def test_any_tree_comes_back_from_its_flags(tree):
    argv = [word for path, value in leaves(tree) for word in (".".join((OPTION, *path)), value)]
    assert folded("serve", *argv) == (["serve"], tree)
