"""Runs items in one bash and ends everything that they started. The rim around `records` and `outcome`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TextIO

from omni_ci.errors import GuardError
from omni_ci.runner.orphans import Orphans
from omni_ci.runner.outcome import SIGNALLED, TIMED_OUT, Outcome, Stopped, judge
from omni_ci.runner.records import PRELUDE, parse, prelude, script
from omni_ci.runner.stopping import Stop
from omni_ci.runner.table import lines, title
from omni_ci.runner.trees import TAG, Tree, shown
from omni_hardware.errors import InfrastructureError
from omni_hardware.processes import Ending, stop_trees

GRACE_S = 7.0  # below the 10 s that an agent itself waits after a cancellation
_SETTLE_S = 1.0
_LEFT_S = 5.0
_LONGEST = 128 * 1024 - 1  # of one argument of a program, on Linux
_FIRST_POLL_S, _POLL_S = 0.005, 0.05


def run_items(
    commands: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    timeout_s: float | None = None,
    grace_s: float = GRACE_S,
    out: TextIO | None = None,
    log: Path | None = None,
    stop: Stop | None = None,
    orphans: Orphans | None = None,
) -> Outcome:
    """Run *commands* in order in one bash and return what became of each.

    timeout_s: for all of them together; then the whole tree gets TERM, and KILL after *grace_s* seconds. out: where
    the table of statuses is written at the end, None for nowhere. log: the file that takes what the commands print,
    None for our own streams. stop: asked again and again whether to end early. orphans: those that we adopt, where
    these commands alone can have any. Raises GuardError where no bash can be started: nothing was run.
    """
    with _aside() as (written, aside), _streams(log) as stream:
        titles = [title(number, len(commands), command) for number, command in enumerate(commands, 1)]
        text = script(commands, titles, aside=aside)
        tree = replace(_started(text, cwd=cwd, environ=environ, stream=stream), orphans=orphans)
        began = time.monotonic()
        try:
            stopped = _waited(tree, timeout_s, grace_s, stop or Stop())
            seconds = time.monotonic() - began
            leaked, notes = _leaks(tree)
        finally:
            code = tree.shell.wait()
        records = parse(written.read())
    outcome = judge(commands, records, shell=code, seconds=seconds, stopped=stopped)
    outcome = replace(outcome, leaked=leaked, notes=(*outcome.notes, *notes))
    if out is not None:
        _tell(out, outcome)
    return outcome


def _tell(out: TextIO, outcome: Outcome) -> None:
    # whoever reads us may have left: that must not replace the commands' status
    with contextlib.suppress(OSError, ValueError):
        out.writelines(f"{line}\n" for line in lines(outcome))
        out.flush()


def _started(text: str, *, cwd: Path, environ: Mapping[str, str], stream: IO[bytes] | None) -> Tree:
    bash = shutil.which("bash", path=environ.get("PATH"))
    if bash is None:
        raise GuardError("bash is not on PATH, so no command was run; install it in the image")
    size = len(os.fsencode(text))
    if size > _LONGEST:
        raise GuardError(
            f"the commands are {size} bytes, more than one program can be given ({_LONGEST}), so none was run; "
            "put them into a script of the repository"
        )
    tag = uuid.uuid4().hex
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()  # what we said so far stands before what the commands print
    try:
        shell = subprocess.Popen(
            [bash, "--noprofile", "--norc", "-c", text, "bash"],
            cwd=cwd,
            # BASH_ENV would be read first, and may do anything
            env={
                **{name: value for name, value in environ.items() if name != "BASH_ENV"},
                TAG: tag,
                PRELUDE: prelude(),
            },
            # a read from outside the terminal's foreground group would stop the command for good
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT if stream is not None else None,
            process_group=0,
        )
    except OSError as error:
        raise GuardError(
            f"bash cannot be started in {cwd}: {error.strerror}, so no command was run"
        ) from error
    return Tree(shell, tag)


def _waited(tree: Tree, timeout_s: float | None, grace_s: float, stop: Stop) -> Stopped | None:
    """Return once the shell has ended, by itself (None) or because we ended it."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause = _FIRST_POLL_S
    while not _has_ended(tree.shell):
        if tree.orphans:
            tree.orphans.reap(but=tree.shell.pid)
        if stop.number is not None:
            asked = signal.SIGINT if stop.number == signal.SIGINT else signal.SIGTERM
            how = _end(tree, asked, grace_s)
            return Stopped(status=SIGNALLED + stop.number, because=f"ended because of {stop.name}{how}")
        if deadline is not None and time.monotonic() >= deadline:
            how = _end(tree, signal.SIGTERM, grace_s)
            return Stopped(status=TIMED_OUT, because=f"not done after {timeout_s:g} s{how}")
        time.sleep(pause)
        pause = min(2 * pause, _POLL_S)
    return None


def _end(tree: Tree, number: int, grace_s: float) -> str:
    try:
        ending = tree.end(number, grace_s=grace_s)
    except InfrastructureError as error:
        return f"; {error}"
    return f"; killed {grace_s:g} s later" if ending is Ending.KILL else ""


def _leaks(tree: Tree) -> tuple[str, tuple[str, ...]]:
    """Return the processes that the items left behind, named, after ending them, and what went wrong with that."""
    left = tree.left(settle_s=_SETTLE_S)
    if not left:
        return "", ()
    names = shown(left)
    try:
        stop_trees(left, tree.members, grace_s=_LEFT_S)
    except InfrastructureError as error:
        return names, (str(error),)
    return names, ()


def _has_ended(shell: subprocess.Popen[bytes]) -> bool:
    """Return whether the shell ended; it stays a zombie, so that nobody else gets its number, and so its group."""
    if shell.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return shell.poll() is not None
    found = os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None


@contextmanager
def _aside() -> Iterator[tuple[IO[bytes], Path]]:
    """Yield a file for the shell's records, and the path that it writes to. Raises GuardError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="omni-items-", ignore_cleanup_errors=True)
        path = Path(folder.name) / "records"
        written = path.open("w+b")
    except OSError as error:
        raise GuardError(f"no temporary file can be made: {error.strerror}, so no command was run") from None
    with folder, written:
        # through our own descriptor where the kernel has that: a command may well empty /tmp
        ours = Path("/proc", str(os.getpid()), "fd", str(written.fileno()))
        yield written, ours if ours.exists() else path


@contextmanager
def _streams(log: Path | None) -> Iterator[IO[bytes] | None]:
    if log is None:
        yield None
        return
    with log.open("ab") as stream:
        yield stream
