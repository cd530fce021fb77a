"""Tiny random checkpoints in diffusers' format: real files of a few MB, for trying things and for tests.

Adding a family is one line here and one file beside this one.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path

from omni.errors import InfrastructureError, InputError, did_you_mean
from omni.models.discovery import INDEX
from omni.models.turn import TURN

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
    # Links and "." are followed: a folder that is there may be somebody's working directory or a mount point, which
    # cannot be replaced, only filled.
    home = Path(os.path.realpath(out_dir))
    filled = home.is_dir()
    name = f".{home.name}.{os.getpid()}.unfinished"
    unfinished = home / name if filled else home.parent / name
    try:
        unfinished.mkdir(parents=True)
        with TURN.taken():
            getattr(import_module(module), function)(unfinished, seed)
        if filled:
            _move_up(unfinished)
        else:
            unfinished.rename(home)
    except OSError as fault:
        raise InfrastructureError(f"{out_dir}: cannot be written: {fault.strerror or fault}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return out_dir


def _move_up(unfinished: Path) -> None:
    # The index last: without it nothing takes the folder for a checkpoint.
    for entry in sorted(unfinished.iterdir(), key=lambda entry: entry.name == INDEX):
        entry.rename(unfinished.parent / entry.name)


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
