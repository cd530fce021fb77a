"""Vendor tools run as child processes: what they printed, with a limit that holds even for one that cannot be killed.

amd-smi can hang in a driver call where no signal reaches it. Waiting for such a child would hang us too: after the
limit it is sent SIGKILL and left to a thread that reaps it whenever the driver lets go.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omni_hardware.errors import InfrastructureError, strip_controls

TOOL_LIMIT_S = 20.0  # nvidia-smi without persistence mode takes some seconds a card
_SHOWN = 300
_NOT_FOUND, _TIMED_OUT = 127, 124


@dataclass(frozen=True, slots=True)
class Output:
    """What a command left: its exit status, what it printed, and whether it was abandoned."""

    code: int
    out: str = ""
    err: str = ""
    abandoned: bool = False

    @property
    def is_missing(self) -> bool:
        """Return whether there is no such program."""
        return self.code == _NOT_FOUND

    @property
    def said(self) -> str:
        """Return everything printed, for looking for a known sentence."""
        return f"{self.out}\n{self.err}"


Run = Callable[[Sequence[str]], Output]


class ProbeError(InfrastructureError):
    """The tool is there and did not answer: never to be read as "no devices"."""


def runner(environ: Mapping[str, str], *, limit_s: float = TOOL_LIMIT_S) -> Run:
    """Return what runs a tool of *environ*'s PATH, at most *limit_s* seconds, in this process's group."""
    return lambda command: run(command, environ, limit_s=limit_s)


def run(
    command: Sequence[str], environ: Mapping[str, str], *, limit_s: float, leads_group: bool = False
) -> Output:
    """Return the command's output; one that overruns *limit_s* seconds is killed and abandoned, never waited for.

    leads_group: start it as the leader of a group that is killed with it.
    """
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return Output(_NOT_FOUND, err=f"{command[0]}: not found")
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=dict(environ),
            start_new_session=leads_group,
        )
    except OSError as error:
        return Output(126, err=f"{program}: {error.strerror}")
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _abandon(process, whole_group=leads_group)
        return Output(_TIMED_OUT, err=f"{command[0]} gave no answer in {limit_s:g} s", abandoned=True)
    return Output(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def failure(command: Sequence[str], output: Output) -> ProbeError:
    """Return the error that names the command, its exit status and what it said."""
    said = " ".join(strip_controls(output.said).split())[:_SHOWN]
    if output.abandoned:
        return ProbeError(said)
    return ProbeError(f"{' '.join(command)}: exit {output.code}: {said or 'it printed nothing'}")


def json_in(command: Sequence[str], output: Output) -> Any:
    """Return the JSON document that a tool printed, after warnings if there are any; ProbeError where there is none."""
    lines = output.out.splitlines(keepends=True)
    for start, line in enumerate(lines):
        if line.lstrip()[:1] in {"{", "["}:
            with contextlib.suppress(json.JSONDecodeError, RecursionError):
                return json.JSONDecoder().raw_decode("".join(lines[start:]).lstrip())[0]
    raise failure(command, output)


def rows_of(document: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, whatever else a tool put in it; [] for anything but a list."""
    return [row for row in document if isinstance(row, dict)] if isinstance(document, list) else []


def number(value: object) -> int | None:
    """Return the whole number in what a tool printed ("0x1f", 12, "12.0"); None for "N/A" and the like.

    >>> number("196592"), number("N/A"), number({"value": 65520, "unit": "MB"})
    (196592, None, 65520)
    """
    if isinstance(value, dict):
        return number(value.get("value"))
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    shown = str(value).strip()
    with contextlib.suppress(ValueError):
        return int(shown, 0)
    with contextlib.suppress(ValueError, OverflowError):
        return int(float(shown))
    return None


def text(value: object) -> str:
    """Return a name a tool printed, "" for what stands for none ("N/A", "unknown", null)."""
    found = strip_controls(str(value)).strip() if isinstance(value, str) else ""
    return "" if found.lower() in {"n/a", "unknown", "none", "-"} else found


def _abandon(process: subprocess.Popen[bytes], *, whole_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()
