"""What a person sees of a run: the commands before, one line while, a table after."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TextIO

from omni_ci.local.jobs import Job
from omni_ci.local.results import Result
from omni_ci.local.schedule import Schedule
from omni_ci.runner.table import because
from omni_hardware.errors import strip_controls
from omni_hardware.processes import log_tail
from omni_hardware.redaction import redact

_TAIL_LINES = 30
_CLEAR = "\r\x1b[2K"


def plan_lines(jobs: Sequence[Job]) -> Iterator[str]:
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
        self._is_live = out.isatty()

    def watch(self, schedule: Schedule, new: Sequence[Result]) -> None:
        """Show the jobs that ended, and on a terminal which run now and for how long."""
        total = sum(job.shards for job in schedule.jobs)
        before = len(schedule.results) - len(new)
        for done, result in enumerate(new, before + 1):
            self.line(f"[{done}/{total}] {result.word}: {result.title}{_detail(result)}")
            if result.has_failed and result.log:
                for line in log_tail(self._logs / result.log, _TAIL_LINES).splitlines():
                    self.line(f"    | {line}")
        if self._is_live:
            self._write(_CLEAR + self._now(schedule, total))

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"{_CLEAR if self._is_live else ''}{strip_controls(redact(text))}\n")

    def close(self) -> None:
        """Take the rewritten line away."""
        if self._is_live:
            self._write(_CLEAR)

    def _now(self, schedule: Schedule, total: int) -> str:
        now = time.monotonic()
        names = {
            (job.id, shard): Result(job=job, shard=shard).title
            for job in schedule.jobs
            for shard in range(job.shards)
        }
        running = (f"{names[key]} {now - began:.0f} s" for key, began in schedule.running.items())
        text = strip_controls(f"{len(schedule.results)}/{total} done; now {', '.join(running) or 'nothing'}")
        return text[: get_terminal_size().columns - 1]

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


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
