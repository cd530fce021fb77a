"""One call of another program, read to its end."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_hardware.errors import InfrastructureError

# What git holds of a repository it lets go of at SIGTERM; longer than this nobody waits for that.
_GRACE_S = 2.0


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

    Raises subprocess.TimeoutExpired after *seconds*, when all that it started has been ended with it, and OSError
    where it cannot be started. Its streams are files: a pipe would be waited for until the last child that the program
    left behind has let go of it.
    """
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(text.encode("utf-8", "backslashreplace"))
        given.seek(0)
        process = subprocess.Popen(
            list(command),
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=seconds)
        except BaseException:
            # a Ctrl-C does not reach a session of its own
            _end(process)
            raise
        out.seek(0)
        err.seek(0)
        return Done(code=code, out=out.read(), err=err.read())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End *process* with its children: git's are ssh and credential helpers, which wait for an answer too."""
    from omni_hardware.processes import stop  # psutil, and only here

    # what not even SIGKILL ends hangs in the kernel: the time limit that brought us here is what to tell
    with contextlib.suppress(InfrastructureError):
        stop(process, grace_s=_GRACE_S)
