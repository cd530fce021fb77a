"""Joins what the shards of one run measured: ``python -m pytest_omni.sharding.merging durations.json PART…``.

The first file is updated, or made; a later file wins over an earlier one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from omni_hardware.errors import InputError, OmniError
from pytest_omni.sharding.durations import load, save

USAGE = "usage: python -m pytest_omni.sharding.merging DURATIONS PART [PART ...]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge the named files; return 0, 2 for files that are wrong, 4 for those that cannot be read or written."""
    names = sys.argv[1:] if arguments is None else arguments
    if len(names) < 2 or any(name.startswith("-") for name in names):
        print(USAGE, file=sys.stderr)
        return InputError.exit_code
    target, *parts = map(Path, names)
    try:
        merged = load(target)
        for part in parts:
            if not part.exists():
                raise InputError(f"{part}: no such file")
            merged = merged.updated(load(part))
        save(target, merged)
    except OmniError as error:
        print(f"{error}", file=sys.stderr)
        return error.exit_code
    print(f"{target}: {len(merged.tests)} tests, {len(merged.fixtures)} fixtures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
