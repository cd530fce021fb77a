from __future__ import annotations

import math
from typing import Any

import pytest

from omni.engine.request import SEED_MAX, SEED_MIN, ImageRequest
from omni.errors import RequestError


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"n": True}, "n"),
        ({"n": 1.5}, "n"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": "bad\udcff"}, "prompt"),
        ({"negative_prompt": "\ud800"}, "negative_prompt"),
        ({"negative_prompt": 3}, "negative_prompt"),
        ({"width": 64}, "size"),
        ({"height": 64}, "size"),
        ({"num_inference_steps": 0}, "num_inference_steps"),
        ({"num_inference_steps": 2.0}, "num_inference_steps"),
        ({"guidance_scale": -0.1}, "guidance_scale"),
        ({"guidance_scale": math.nan}, "guidance_scale"),
        ({"guidance_scale": math.inf}, "guidance_scale"),
        ({"guidance_scale": "5"}, "guidance_scale"),
        ({"seed": SEED_MAX + 1}, "seed"),
        ({"seed": SEED_MAX, "n": 2}, "seed"),
        ({"seed": SEED_MIN - 1}, "seed"),
        ({"seed": 1.0}, "seed"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError, match=param) as caught:
        ImageRequest(**({"prompt": "a cat"} | fields))

    assert caught.value.param == param
    assert caught.value.exit_code == 2


def test_a_long_wrong_value_is_not_told_whole() -> None:
    with pytest.raises(RequestError) as caught:
        ImageRequest(prompt="x" * 10_000 + "\ud800")

    assert len(str(caught.value)) < 200
    assert str(caught.value).isascii() or "\ud800" not in str(caught.value)


def test_every_real_character_is_legal() -> None:
    ImageRequest(prompt="\ud7ff\ue000\U0001f408", negative_prompt="\0\U0010ffff")


def test_the_ends_of_the_ranges_are_legal() -> None:
    ImageRequest(prompt="", n=1, num_inference_steps=1, guidance_scale=0, seed=SEED_MAX)
    ImageRequest(prompt="a", n=10, width=64, height=64, guidance_scale=7.5, seed=SEED_MIN)
    ImageRequest(prompt="a", n=2, seed=SEED_MAX - 1)
