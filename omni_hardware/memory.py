"""Sizes of memory as people write them."""

from __future__ import annotations

import re

from omni_hardware.errors import InputError, did_you_mean

_MIB = 1024**2
# Both kinds, exactly: a card sold as 80 GB reports 79.6 GiB.
_BYTES = {
    "MiB": _MIB,
    "GiB": 1024**3,
    "TiB": 1024**4,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
}
_SIZE = re.compile(r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,12})?) ?(?P<unit>[A-Za-z]*)")


def parse_memory(text: object) -> int:
    """Return *text* ("40GiB", "1.5 TiB", "80GB") in MiB, rounded up; InputError for anything else."""
    hit = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if hit is None:
        raise InputError(f'{text!r} is no size of memory; write it as "40GiB"')
    if hit["unit"] not in _BYTES:
        unit = hit["unit"]
        what = f"unknown unit {unit!r}{did_you_mean(unit, _BYTES)}" if unit else "it has no unit"
        raise InputError(f'{text!r} is no size of memory: {what}; write it as "40GiB"')
    whole, _, part = hit["number"].partition(".")
    size: int = -(-int(whole + part) * _BYTES[hit["unit"]] // (_MIB * 10 ** len(part)))  # rounded up, exactly
    if size == 0:
        raise InputError(f"{text!r} asks for no memory at all; leave it out")
    return size


def shown_memory(mib: int) -> str:
    """Return a size in MiB as people read it: "40 GiB", "81559 MiB"."""
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
