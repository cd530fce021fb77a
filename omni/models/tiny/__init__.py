"""Tiny random checkpoints in diffusers' format: real files of a few MB, for trying things and for tests.

Adding a family is one line here and one file beside this one.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path

from omni.errors import InfrastructureError, InputError, did_you_mean

# Family -> "module:function"; the function gets (folder, seed) and fills the empty folder.
FAMILIES: dict[str, str] = {
    "z_image": "omni.models.tiny.z_image:write",
}


def build(family: str, out_dir: Path, *, seed: int = 0) -> Path:
    """Return *out_dir*, filled with a checkpoint of *family*: the same bytes for the same seed and library versions.

    It appears whole or not at all. Raises InputError for an unknown family or a folder that is not empty, needs no
    network.
    """
    check(family, out_dir)
    module, function = FAMILIES[family].split(":")
    unfinished = out_dir.parent / f".{out_dir.name}.{os.getpid()}.unfinished"
    try:
        unfinished.mkdir(parents=True)
        getattr(import_module(module), function)(unfinished, seed)
        unfinished.rename(out_dir)
    except OSError as fault:
        raise InfrastructureError(f"{out_dir}: cannot be written: {fault.strerror or fault}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return out_dir


def check(family: str, out_dir: Path) -> None:
    """Pass if `build` has a family to build and an empty place for it; costs nothing."""
    if family not in FAMILIES:
        raise InputError(f"tiny family {family!r} is not known{did_you_mean(family, FAMILIES)}")
    try:
        if not out_dir.exists():
            return
        if not out_dir.is_dir():
            raise InputError(f"{out_dir}: is a file; give a new folder")
        found = sorted(entry.name for entry in out_dir.iterdir())
    except OSError as fault:
        raise InputError(f"{out_dir}: cannot be used: {fault.strerror or fault}") from None
    if found:
        raise InputError(
            f"{out_dir}: is not empty (it holds {', '.join(found[:4])}); give a new folder, or remove this one first"
        )
