"""One call of another program, read to its end."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a program ended, and what it wrote."""

    code: int
    out: bytes
    err: bytes


def finish(
    command: Sequence[str],
    *,
    seconds: float,
    environ: Mapping[str, str],
    cwd: Path | None = None,
    text: str = "",
) -> Done:
    """Return how *command*, given *text* on its standard input, ended.

    Raises subprocess.TimeoutExpired after *seconds* and OSError where it cannot be started. Its streams are files:
    a pipe would be waited for until the last child that the program left behind has let go of it.
    """
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(text.encode("utf-8", "backslashreplace"))
        given.seek(0)
        done = subprocess.run(
            list(command),
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=dict(environ),
            timeout=seconds,
            check=False,
        )
        out.seek(0)
        err.seek(0)
        return Done(code=done.returncode, out=out.read(), err=err.read())
