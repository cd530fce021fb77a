"""Where images go: judged before anything loads, written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from omni.errors import InfrastructureError, InputError, did_you_mean

if TYPE_CHECKING:
    from omni.engine.request import ImageResult

FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}


@dataclass(frozen=True, slots=True)
class Output:
    """A place for images: a file, or a folder in which each is named after its seed."""

    folder: Path
    stem: str | None
    suffix: str = ".png"

    @classmethod
    def of(cls, path: Path) -> Output:
        """Return the place *path* means; raises InputError if nothing could be written there."""
        is_folder = os.path.isdir(path)  # noqa: PTH112  # false for what cannot be looked at, pathlib raises
        folder = path if is_folder else path.parent
        try:
            is_there = stat.S_ISDIR(folder.stat().st_mode)
        except FileNotFoundError:
            is_there = False
        except OSError as error:
            raise InputError(
                f"--output {path}: the folder {folder} cannot be used: {error.strerror}"
            ) from None
        if not is_there:
            raise InputError(f"--output {path}: there is no folder {folder}; create it first")
        if not os.access(folder, os.W_OK):
            raise InputError(f"--output {path}: the folder {folder} cannot be written to")
        if is_folder:
            return cls(folder, None)
        if not path.suffix:
            raise InputError(
                f"--output {path}: there is no folder of that name, and a file needs an extension: {', '.join(FORMATS)}"
            )
        if path.suffix.lower() not in FORMATS:
            raise InputError(
                f"--output {path}: unknown image format {path.suffix!r}{did_you_mean(path.suffix, FORMATS)}"
            )
        return cls(folder, path.stem, path.suffix)

    def write(self, result: ImageResult) -> Iterator[Path]:
        """Write each image of *result* and yield its path as soon as it is there."""
        for index, (image, seed) in enumerate(zip(result.images, result.seeds, strict=True)):
            path = self._path(index, len(result.images), seed)
            # A link keeps its name: its target gets the image.
            target = Path(os.path.realpath(path))
            draft = target.with_name(f".omni-{os.getpid()}{self.suffix}")
            if target.exists() and not target.is_file():
                raise InfrastructureError(f"{path}: not written: {target} is not a regular file")
            try:
                image.save(draft, format=FORMATS[self.suffix.lower()])
                draft.replace(target)
            except OSError as error:
                draft.unlink(missing_ok=True)
                raise InfrastructureError(f"{path}: not written: {error.strerror or error}") from None
            yield path

    def _path(self, index: int, images: int, seed: int) -> Path:
        if self.stem is not None:
            return self.folder / (
                f"{self.stem}{self.suffix}" if images == 1 else f"{self.stem}-{index}{self.suffix}"
            )
        # A named file is the user's to replace; in a folder nothing earlier is lost.
        names = (f"omni-{seed}{'' if turn == 1 else f'-{turn}'}{self.suffix}" for turn in count(1))
        return next(path for name in names if not (path := self.folder / name).exists())
