"""Hands a report to buildkite-agent, and believes only what Buildkite itself then says it holds."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from omni_hardware.errors import InfrastructureError, strip_controls
from omni_hardware.processes import stop

AGENT = "buildkite-agent"
# An agent that hangs stands between the halves: the second one must still get its turn.
UPLOAD_WITHIN_S = 600.0
SEARCH_WITHIN_S = 60.0
# The agent repeats a failed upload by itself, but not a failed search.
SEARCH_AFTER_S = (0.0, 2.0, 5.0)

Say = Callable[[str], None]


def upload(name: str, *, folder: Path, environ: Mapping[str, str], say: Say) -> str | None:
    """Return what went wrong with the upload of *name*, or None once Buildkite holds these very bytes."""
    report = folder / name
    if not report.is_file():
        return f"{report} is gone, so it was not uploaded"
    try:
        # In the folder, so that the artifact is stored under its plain name.
        say(_run_agent("upload", name, folder=folder, environ=environ, within_s=UPLOAD_WITHIN_S))
        # Buildkite's own fingerprint of an artifact, no protection
        sha1 = hashlib.sha1(report.read_bytes(), usedforsecurity=False).hexdigest()
        _find(name, sha1=sha1, folder=folder, environ=environ)
    except (InfrastructureError, OSError) as error:
        problem, _, printed = str(error).partition("\n")
        say(printed)
        return f"upload of {name} failed: {problem}"
    say(f"the build has {name}, SHA-1 {sha1}")
    return None


def _find(name: str, *, sha1: str, folder: Path, environ: Mapping[str, str]) -> None:
    """Return once the artifacts of this build hold the report; raises InfrastructureError when they do not.

    An upload that matches nothing exits 0 (buildkite/agent#619), and what the agent logs depends on its
    settings. The search asks Buildkite, which lists finished uploads only.
    """
    problem = InfrastructureError("")
    for pause in SEARCH_AFTER_S:
        time.sleep(pause)
        arguments = ("search", "--format", "%S\n", name)
        try:
            answer = _run_agent(*arguments, folder=folder, environ=environ, within_s=SEARCH_WITHIN_S)
        except InfrastructureError as error:
            problem = error
            continue
        if sha1 in answer.split():
            return
        problem = InfrastructureError(
            f"the agent exited 0, but its search finds no artifact {name} with SHA-1 {sha1}\n{answer}"
        )
    raise problem


def _run_agent(*arguments: str, folder: Path, environ: Mapping[str, str], within_s: float) -> str:
    """Return what `buildkite-agent artifact` printed.

    Raises InfrastructureError when it fails, hangs or cannot be run: a line on that, then what it printed.
    """
    asked = f"{AGENT} artifact {arguments[0]}"
    # a file, not a pipe: nothing that the agent leaves behind can hold it open
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                [AGENT, "artifact", *arguments],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # ends as a whole
            )
        except OSError as error:
            raise InfrastructureError(f"{asked} cannot be run: {error.strerror}") from error
        try:
            status: int | None = child.wait(within_s)
        except subprocess.TimeoutExpired:
            stop(child)
            status = None
        output.seek(0)
        printed = strip_controls(output.read().decode(errors="replace")).rstrip()
    if status is None:
        raise InfrastructureError(f"{asked} was not done after {within_s:g} s\n{printed}")
    if status:
        raise InfrastructureError(f"{asked} exited {status}\n{printed}")
    return printed
