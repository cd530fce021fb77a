"""Which mount a path lies on, as the kernel says it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from omni_hardware.errors import InfrastructureError

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: where, and of what kind ("ext4", "nfs4", "tmpfs")."""

    point: str
    kind: str


def mounts(root: Path = Path("/")) -> list[Mount]:
    """Return the mounts of this process, in the kernel's order. Raises InfrastructureError where they cannot be read."""
    path = root / "proc/self/mountinfo"
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {error.strerror}") from None
    return [mount for line in text.splitlines() if (mount := _read(line))]


def mount_of(path: str | Path, known: list[Mount]) -> Mount | None:
    """Return the mount that *path* lies on, whether or not it exists yet; the last of several on one point."""
    real = os.path.realpath(path)
    above = [
        mount for mount in known if real == mount.point or real.startswith(f"{mount.point.rstrip('/')}/")
    ]
    return max(enumerate(above), key=lambda one: (len(one[1].point), one[0]))[1] if above else None


def _read(line: str) -> Mount | None:
    """Read "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw": optional fields end with "-"."""
    fields = line.split(" ")
    if len(fields) < 10 or "-" not in fields[6:]:
        return None
    return Mount(_unescaped(fields[4]), fields[fields.index("-", 6) + 1])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
