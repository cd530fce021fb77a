from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni.errors import InputError, ModelError, RequestError, SizeError
from omni.models.catalog import CATALOG
from omni.models.sizes import DEFAULT_MAX_IMAGE_SIZE, SizeRules, parse_max_image_size

Z_IMAGE = CATALOG["ZImagePipeline"]
RULES = SizeRules(factor=16, default=(64, 64), max_pixels=7680 * 4320, max_width=512, max_height=768)
REAL = SizeRules(factor=16, default=(1024, 1024), max_pixels=7680 * 4320, max_width=8192, max_height=8192)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (None, (64, 64)),
        ("auto", (64, 64)),
        ("64x32", (64, 32)),
        ("512x768", (512, 768)),
        ("016x0016", (16, 16)),
    ],
)
def test_legal_sizes(size: str | None, expected: tuple[int, int]) -> None:
    assert RULES.resolve(size) == expected


@pytest.mark.parametrize(
    "size", ["axb", "", "64", "32x32x32", "64x", "x64", "64*64", "64X64", " 64x64", "6.4x64", "６４x64"]
)
def test_other_forms_are_refused(size: str) -> None:
    with pytest.raises(SizeError, match="expected WIDTHxHEIGHT in pixels, as in '64x64'") as caught:
        RULES.resolve(size)

    assert caught.value.param == "size"
    assert isinstance(caught.value, RequestError)


@pytest.mark.parametrize(
    ("rules", "size", "message"),
    [
        (RULES, "33x32", r"'33x32': .* multiples of 16 for this model; the nearest size that works is 32x32"),
        (RULES, "0x32", r"at least 1 pixel; .* is 16x32"),
        (RULES, "-32x32", r"at least 1 pixel; .* is 16x32"),
        (RULES, "100000x10000", r"1000000000 pixels are more than the limit of 33177600; .* is 512x48"),
        (RULES, "528x64", r"width 528 is more than 512, where this model's position table ends; .* is 512x"),
        (RULES, "64x784", r"height 784 is more than 768"),
        (REAL, "8192x8192", r"more than the limit"),
        (REAL, "8208x16", r"width 8208 is more than 8192"),
        (RULES, "9999999x32", r"no side can have more than 6 digits"),
        (RULES, f"{'9' * 10_000}x32", r"no side can have more than 6 digits"),
    ],
)
def test_sizes_that_cannot_be_drawn_name_the_nearest_that_can(
    rules: SizeRules, size: str, message: str
) -> None:
    with pytest.raises(SizeError, match=message) as caught:
        rules.resolve(size)

    assert len(str(caught.value)) < 300


_sides = st.integers(-5, 200_000)
_rules = st.builds(
    lambda factor, rows, columns, limit: SizeRules(
        factor, (factor, factor), max(limit, factor**2), columns and columns * factor, rows and rows * factor
    ),
    st.sampled_from([1, 2, 8, 16, 32]),
    st.none() | st.integers(1, 600),
    st.none() | st.integers(1, 600),
    st.integers(1, 40_000_000),
)


@settings(max_examples=50)
@given(_rules, _sides, _sides)
def test_the_nearest_size_is_always_legal(rules: SizeRules, width: int, height: int) -> None:
    near = rules.nearest(width, height)

    assert rules.check(*near) == near


@settings(max_examples=50)
@given(_rules, _sides, _sides)
def test_a_legal_size_is_its_own_nearest(rules: SizeRules, width: int, height: int) -> None:
    try:
        legal = rules.check(width, height)
    except SizeError:
        return
    assert rules.nearest(width, height) == legal


def test_rules_come_from_the_configs(paper_checkpoint: Path) -> None:
    rules = SizeRules.of(paper_checkpoint, Z_IMAGE)

    assert rules.factor == 16
    assert (rules.max_width, rules.max_height) == (32 * 16, 48 * 16)
    assert rules.max_pixels == 7680 * 4320
    assert rules.default == (512, 512)  # the pipeline's 1024x1024 is beyond this table


def test_the_checkpoint_says_its_default(paper_checkpoint: Path) -> None:
    (paper_checkpoint / "omni.json").write_text('{"schema": 1, "default_size": "64x32"}')

    assert SizeRules.of(paper_checkpoint, Z_IMAGE).resolve(None) == (64, 32)
    assert SizeRules.of(paper_checkpoint, Z_IMAGE, max_image_size="32*32").resolve(None) == (32, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"omni\.json:1:2: not JSON"),
        ("[]", r"expected a JSON object"),
        (
            '{"schema": 1, "default_sise": "64x64"}',
            r"unknown key 'default_sise' \(did you mean 'default_size'\?\)",
        ),
        ('{"schema": 2}', r"schema must be 1, found 2"),
        ('{"default_size": "64x64"}', r"schema must be 1, found None"),
        ('{"schema": 1, "default_size": 64}', r"default_size must be text"),
        (
            '{"schema": 1, "default_size": "33x32"}',
            r"omni\.json: default_size: size '33x32'.*multiples of 16",
        ),
        ('{"schema": 1, "default_size": "1024x64"}', r"position table"),
    ],
)
def test_a_wrong_omni_json_is_named(paper_checkpoint: Path, text: str, message: str) -> None:
    (paper_checkpoint / "omni.json").write_text(text)

    with pytest.raises(ModelError, match=message):
        SizeRules.of(paper_checkpoint, Z_IMAGE)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("vae/config.json", None, r"vae/config\.json: missing"),
        ("vae/config.json", "{}", r"block_out_channels must be a list"),
        ("transformer/config.json", '{"axes_lens": [1, 2]}', r"axes_lens must be a list of at least 3"),
        ("transformer/config.json", '{"axes_lens": [1, 2, "x"]}', r"positive integers"),
        ("transformer/config.json", b"\xff", r"not JSON"),
        (
            "transformer/config.json",
            '{"axes_lens": [513, 32, 32]}',
            r"entry 0 of axes_lens is 513; .* needs 514",
        ),
        (
            "vae/config.json",
            json.dumps({"block_out_channels": [8] * 20_000}),
            r"one for each of 1 to 10 levels",
        ),
        ("vae/config.json", json.dumps({"block_out_channels": [8] * 11}), r"one for each of 1 to 10 levels"),
        ("vae/config.json", '{"block_out_channels": [8, "x"]}', r"positive integers"),
        ("vae/config.json", '{"block_out_channels": [8, true]}', r"positive integers"),
    ],
)
def test_configs_that_do_not_say_the_size(
    paper_checkpoint: Path, file: str, text: str | bytes | None, message: str
) -> None:
    path = paper_checkpoint / file
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(ModelError, match=message):
        SizeRules.of(paper_checkpoint, Z_IMAGE)


def test_the_operators_limit() -> None:
    assert parse_max_image_size(DEFAULT_MAX_IMAGE_SIZE) == parse_max_image_size("7680x4320") == 33_177_600
    for wrong in ("", "7680", "7680*0", "a*b", "-1*2", "7680 * 4320", "1*1*1"):
        with pytest.raises(InputError, match=r"expected WIDTH\*HEIGHT"):
            parse_max_image_size(wrong)


def test_a_limit_below_the_smallest_image_is_refused(paper_checkpoint: Path) -> None:
    with pytest.raises(InputError, match="'8\\*8' is below 16x16, the smallest image"):
        SizeRules.of(paper_checkpoint, Z_IMAGE, max_image_size="8*8")
