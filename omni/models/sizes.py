"""Which image sizes a checkpoint can draw, judged from its JSON files before anything is allocated. Torch-free."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from omni.config import jsontext
from omni.errors import InputError, ModelError, SizeError, did_you_mean
from omni.models.catalog import CatalogRow

DEFAULT_MAX_IMAGE_SIZE = "7680*4320"
AUTO = "auto"  # OpenAI's name for "no wish"
_OWN_FILE = "omni.json"
_OWN_KEYS = ("schema", "default_size")
_SCHEMA = 1
_MOST_LEVELS = 10  # each level halves the image; more is a damaged file, and numbers that no message can show
_MOST_COUNT = 10**9
_DIGITS = 6  # more is no size, and Python refuses to convert thousands of digits


@dataclass(frozen=True, slots=True)
class SizeRules:
    """The sizes one checkpoint draws: multiples of *factor* pixels a side, within its table and the limit.

    *default* is (width, height); *max_width* and *max_height* come from the denoiser's position table and are None
    where the model has none; *max_pixels* is the operator's limit on width x height.
    """

    factor: int
    default: tuple[int, int]
    max_pixels: int
    max_width: int | None = None
    max_height: int | None = None

    @classmethod
    def of(cls, model_dir: Path, row: CatalogRow, *, max_image_size: str | None = None) -> SizeRules:
        """Return the rules of the checkpoint in *model_dir*, from its own configs and omni.json beside them.

        Raises ModelError where a file is missing or says nonsense, InputError where *max_image_size* does.
        """
        factor = _vae_scale(model_dir) * row.patch
        max_width, max_height = _table(model_dir, row, factor)
        max_pixels = parse_max_image_size(max_image_size or DEFAULT_MAX_IMAGE_SIZE)
        if max_pixels < factor**2:
            raise InputError(
                f"max image size {max_image_size!r} is below {factor}x{factor}, the smallest image of this model"
            )
        bare = cls(factor, row.default_size, max_pixels, max_width, max_height)
        # The pipeline's own default may lie outside a small checkpoint's table or the operator's limit.
        default = _own_default(model_dir, bare) or bare.nearest(*row.default_size)
        return cls(factor, default, max_pixels, max_width, max_height)

    def resolve(self, size: str | None) -> tuple[int, int]:
        """Return (width, height) in pixels for "WxH"; None and "auto" mean the default.

        Raises SizeError saying what is wrong, the limit, and the nearest size that works.
        """
        if size is None or size == AUTO:
            return self.default
        return self.check(*parse_size(size), shown=size)

    def check(self, width: int, height: int, *, shown: str | None = None) -> tuple[int, int]:
        """Return (width, height) unchanged if this checkpoint can draw it; raises SizeError as `resolve` does."""
        if problem := self._problem(width, height):
            near = "x".join(map(str, self.nearest(width, height)))
            raise SizeError(
                f"size {shown or f'{width}x{height}'!r}: {problem}; the nearest size that works is {near}"
            )
        return width, height

    def nearest(self, width: int, height: int) -> tuple[int, int]:
        """Return a legal size close to the wish; one that is too large is scaled down, keeping its shape."""
        width, height = max(width, 1), max(height, 1)
        shrink = min(
            1.0,
            (self.max_width or width) / width,
            (self.max_height or height) / height,
            math.sqrt(self.max_pixels / (width * height)),
        )
        # Rounding up must not climb over a limit that scaling just met.
        rounding = round if shrink == 1.0 else math.floor
        across, down = (max(1, rounding(side * shrink / self.factor + 1e-9)) for side in (width, height))
        while across * down * self.factor**2 > self.max_pixels and max(across, down) > 1:
            across, down = (across - 1, down) if across >= down else (across, down - 1)
        return (
            min(across * self.factor, self.max_width or across * self.factor),
            min(down * self.factor, self.max_height or down * self.factor),
        )

    def _problem(self, width: int, height: int) -> str | None:
        if width <= 0 or height <= 0:
            return "width and height must be at least 1 pixel"
        if width * height > self.max_pixels:
            return f"{width * height} pixels are more than the limit of {self.max_pixels}"
        for name, side, most in (("width", width, self.max_width), ("height", height, self.max_height)):
            if most is not None and side > most:
                return f"{name} {side} is more than {most}, where this model's position table ends"
        if width % self.factor or height % self.factor:
            return f"width and height must be multiples of {self.factor} for this model"
        return None


def parse_size(size: str) -> tuple[int, int]:
    """Return (width, height) for "WxH" as written, not yet judged; raises SizeError for any other form."""
    found = re.fullmatch(r"(-?[0-9]+)x(-?[0-9]+)", size)
    if found is None:
        raise SizeError(f"size {_short(size)}: expected WIDTHxHEIGHT in pixels, as in '64x64'")
    if any(len(side) > _DIGITS for side in found.groups()):
        raise SizeError(f"size {_short(size)}: no side can have more than {_DIGITS} digits")
    return int(found[1]), int(found[2])


def parse_max_image_size(limit: str) -> int:
    """Return the pixels of a limit written "W*H" (or "WxH"), such as "7680*4320"."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})[*x]([1-9][0-9]{0,5})", limit)
    if found is None:
        raise InputError(
            f"max image size {_short(limit)}: expected WIDTH*HEIGHT in pixels, as in '{DEFAULT_MAX_IMAGE_SIZE}'"
        )
    return int(found[1]) * int(found[2])


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a checkpoint; raises ModelError with the place of the fault."""
    try:
        content = jsontext.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{path}: missing; the checkpoint is incomplete, copy or download it again"
        ) from None
    except json.JSONDecodeError as fault:
        raise ModelError(f"{path}:{fault.lineno}:{fault.colno}: not JSON: {fault.msg}") from None
    except OSError as fault:
        raise ModelError(f"{path}: cannot be read: {fault.strerror or fault}") from None
    except UnicodeDecodeError as fault:
        raise ModelError(f"{path}: not JSON: {fault}") from None
    except ValueError as fault:
        raise ModelError(f"{path}: not JSON of a checkpoint: {fault}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content


def _vae_scale(model_dir: Path) -> int:
    path = model_dir / "vae" / "config.json"
    channels = read_json(path).get("block_out_channels")
    if not _is_counts(channels) or not 1 <= len(channels) <= _MOST_LEVELS:
        raise ModelError(
            f"{path}: block_out_channels must be a list of positive integers, one for each of 1 to {_MOST_LEVELS} levels"
        )
    return int(2 ** (len(channels) - 1))


def _table(model_dir: Path, row: CatalogRow, factor: int) -> tuple[int | None, int | None]:
    if row.positions is None:
        return None, None
    path = model_dir / row.denoisers[0] / "config.json"
    table = row.positions
    lengths = read_json(path).get(table.key)
    wanted = max(table.sequence, table.rows, table.columns)
    if not _is_counts(lengths) or len(lengths) <= wanted:
        raise ModelError(f"{path}: {table.key} must be a list of at least {wanted + 1} positive integers")
    if lengths[table.sequence] < table.least_sequence:
        raise ModelError(
            f"{path}: entry {table.sequence} of {table.key} is {lengths[table.sequence]}; the longest prompt that "
            f"{row.pipeline} takes needs {table.least_sequence}"
        )
    return lengths[table.columns] * factor, lengths[table.rows] * factor


def _own_default(model_dir: Path, rules: SizeRules) -> tuple[int, int] | None:
    path = model_dir / _OWN_FILE
    if not path.is_file():
        return None
    content = read_json(path)
    for key in content:
        if key not in _OWN_KEYS:
            raise ModelError(f"{path}: unknown key {key!r}{did_you_mean(key, _OWN_KEYS)}")
    if content.get("schema") != _SCHEMA:
        raise ModelError(f"{path}: schema must be {_SCHEMA}, found {content.get('schema')!r}")
    size = content.get("default_size")
    if size is None:
        return None
    if not isinstance(size, str):
        raise ModelError(f"{path}: default_size must be text such as '64x64', found {size!r}")
    try:
        return _within_limit(parse_size(size), rules)
    except SizeError as fault:
        raise ModelError(f"{path}: default_size: {fault}") from None


def _within_limit(size: tuple[int, int], rules: SizeRules) -> tuple[int, int]:
    """Return the checkpoint's default, made smaller only where the operator's limit asks for it."""
    width, height = size
    if width > 0 and height > 0 and width * height > rules.max_pixels:
        return rules.nearest(width, height)
    return rules.check(width, height)


def _is_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(count, int) and not isinstance(count, bool) and 0 < count <= _MOST_COUNT for count in value
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
