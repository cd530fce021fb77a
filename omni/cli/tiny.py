"""`omni tiny`: a checkpoint of a few MB to try everything with, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def tiny(
    family: Annotated[str, Parameter(help="model family, such as z_image")],
    directory: Annotated[Path, Parameter(help="folder to write; it must not hold anything yet")],
    /,
) -> None:
    """Write a tiny random checkpoint in diffusers format and print its folder."""
    from omni.models.tiny import build

    print(build(family, directory))
