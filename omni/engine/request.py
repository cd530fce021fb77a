"""What is asked of an engine and what it gives back. Torch-free."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omni.errors import RequestError

if TYPE_CHECKING:
    from PIL.Image import Image

Progress = Callable[[int, int, int], None]
"""Called as (image_index, step, total_steps) after each denoising step; step counts from 1."""

_SHOWN = 80
SEED_MIN = -(2**63)
SEED_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """One order for *n* images; None means the pipeline's own default.

    Width and height are pixels and come as a pair. Image i is drawn with seed + i. RequestError names the field
    that cannot be.
    """

    prompt: str
    negative_prompt: str | None = None
    n: int = 1
    width: int | None = None
    height: int | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        _require("prompt", isinstance(self.prompt, str), "must be text", self.prompt)
        _require(
            "negative_prompt",
            self.negative_prompt is None or isinstance(self.negative_prompt, str),
            "must be text",
            self.negative_prompt,
        )
        for name, text in (("prompt", self.prompt), ("negative_prompt", self.negative_prompt)):
            _require(name, _is_unicode(text or ""), "must be text without lone surrogates", text)
        _require("n", _is_int(self.n) and self.n >= 1, "must be a whole number of at least 1", self.n)
        _require(
            "size",
            (self.width is None) == (self.height is None),
            "needs width and height together",
            self.width,
        )
        steps, scale = self.num_inference_steps, self.guidance_scale
        _require(
            "num_inference_steps",
            steps is None or (_is_int(steps) and steps >= 1),
            "must be at least 1",
            steps,
        )
        _require(
            "guidance_scale",
            scale is None or _is_positive(scale),
            "must be a finite number, 0 or more",
            scale,
        )
        _require(
            "seed",
            self.seed is None or (_is_int(self.seed) and SEED_MIN <= self.seed <= SEED_MAX - self.n + 1),
            f"must be a whole number, and seed + n - 1 at most {SEED_MAX}",
            self.seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageResult:
    """The images in order, each with the seed that draws it again alone; *seconds* is wall time for all."""

    images: tuple[Image, ...]
    seeds: tuple[int, ...]
    width: int
    height: int
    seconds: float
    steps: int


def _require(param: str, holds: bool, rule: str, got: object) -> None:
    if not holds:
        raise RequestError(f"{param} {rule}, got {_short(got)}", param=param)


def _is_unicode(text: str) -> bool:
    # Half of a surrogate pair comes from an escape in JSON or bytes of a command line, and no tokenizer takes it.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(got: object) -> str:
    shown = repr(got)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _is_positive(value: object) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )
