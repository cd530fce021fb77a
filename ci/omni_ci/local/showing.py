"""What a person sees of a run: the commands before, one line while, a table after."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from omni_ci.errors import GuardError
from omni_ci.local.jobs import LocalJob
from omni_ci.local.results import Result
from omni_ci.local.schedule import Schedule
from omni_ci.runner.table import because
from omni_hardware.errors import strip_controls
from omni_hardware.processes import log_tail
from omni_hardware.redaction import redact

_TAIL_LINES = 30
_CLEAR = "\r\x1b[2K"


def plan_lines(jobs: Sequence[LocalJob]) -> Iterator[str]:
    """Yield every job in order: its hardware, what it waits for, its commands; or why it is not run."""
    for job in jobs:
        if job.unfit:
            yield f"not here: {job.id}: {job.unfit}"
            continue
        hardware = str(job.need) if job.need else "no device"
        shards = f", {job.shards} shards" if job.shards > 1 else ""
        waits = f", after {', '.join(job.waits)}" if job.waits else ""
        yield f"run: {job.id} ({hardware}{shards}{waits})"
        yield from (f"    note: {note}" for note in job.notes)
        yield from (f"    {name}={value}" for name, value in job.environ.items())
        for command in job.commands:
            first, *more = command.rstrip("\n").split("\n")
            yield f"    $ {first}"
            yield from (f"      {line}" for line in more)


class Screen:
    """Hears what happens and shows it: a line that is rewritten on a terminal, a line a job in a pipe."""

    def __init__(self, out: TextIO, logs: Path) -> None:
        self._out = out
        self._logs = logs
        self._is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = ""
        self.problem: OSError | None = None

    def require(self) -> None:
        """Raise where nothing can be shown: GuardError, or BrokenPipeError for a reader that left."""
        if isinstance(self.problem, BrokenPipeError):
            raise self.problem
        if self.problem is not None:
            raise GuardError(f"standard output cannot be written: {self.problem.strerror}; nothing was run")

    def watch(self, schedule: Schedule, new: Sequence[Result]) -> None:
        """Show the jobs that ended, and on a terminal which run now and for how long.

        A reader that left (`| head`) ends the run; on a full disk it goes on, unseen.
        """
        total = sum(job.shards for job in schedule.jobs)
        before = len(schedule.results) - len(new)
        for done, result in enumerate(new, before + 1):
            self.line(f"[{done}/{total}] {result.word}: {result.title}{_detail(result)}")
            if result.has_failed and result.log:
                for line in log_tail(self._logs / result.log, _TAIL_LINES).splitlines():
                    self.line(f"    | {line}")
        now = self._now(schedule, total) if self._is_live else ""
        if now != self._shown:
            self._write(_CLEAR + now)
            self._shown = now
        if isinstance(self.problem, BrokenPipeError):
            schedule.stop.hear(signal.SIGPIPE)

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"{_CLEAR if self._is_live else ''}{strip_controls(redact(text))}\n")
        self._shown = ""

    def close(self) -> None:
        """Take the rewritten line away."""
        if self._is_live:
            self._write(_CLEAR)

    def _now(self, schedule: Schedule, total: int) -> str:
        now = time.monotonic()
        shards = {job.id: job.shards for job in schedule.jobs}
        running = (
            # the step alone, since the line is short and the file stands above
            f"{name.partition('#')[2]}{f' [{shard + 1}/{shards[name]}]' if shards[name] > 1 else ''} {now - began:.0f} s"
            for (name, shard), began in schedule.running.items()
        )
        text = strip_controls(f"{len(schedule.results)}/{total} done; now {', '.join(running) or 'nothing'}")
        room = get_terminal_size().columns - 1
        return text if cell_len(text) <= room else f"{set_cell_size(text, room - 1)}…"

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError as error:
            self.problem = error
            # what is still in its buffer goes nowhere, and so does all that follows
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())


def closing_lines(results: Sequence[Result], code: int, folder: Path) -> Iterator[str]:
    """Yield a row a job, and the exit code with where everything lies."""
    rows = [(result.word, f"{result.seconds:.1f} s", result.title, _detail(result)) for result in results]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    yield ""
    for row in rows:
        yield f"{row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {row[2]}{row[3]}"
    not_run = sum(result.status is None for result in results)
    left = f"; {not_run} of {len(results)} not run" if not_run else ""
    yield f"exit {code}{left}; logs and junit.xml are in {folder}"


def _detail(result: Result) -> str:
    if result.because:
        return f": {result.because}"
    if result.outcome is None or not result.status:
        return ""
    return f": {because(result.outcome).partition(': ')[2]}"
