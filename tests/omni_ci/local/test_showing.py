"""What a person sees of a run while it runs, on a terminal and in a pipe."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from omni_ci.local.jobs import LocalJob
from omni_ci.local.machine import Machine
from omni_ci.local.results import Result
from omni_ci.local.schedule import Folders, Schedule
from omni_ci.local.showing import Screen
from omni_ci.runner.outcome import Outcome
from omni_ci.runner.stopping import Stop
from omni_hardware.inventory import Inventory

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """Return what a screen of 40 columns shows of these jobs, of which the first has passed and all others run."""

    def show(*jobs: LocalJob, out: io.StringIO, times: int = 1) -> str:
        monkeypatch.setattr("omni_ci.local.showing.get_terminal_size", lambda: os.terminal_size((40, 24)))
        schedule = Schedule(
            jobs=jobs,
            machine=Machine(inventory=Inventory(platform="cpu", devices=()), environ={}),
            folders=Folders(root=Path(), logs=tmp_path, caches=Path()),
            stop=Stop(),
            watch=lambda *_: None,
        )
        screen = Screen(out, tmp_path)
        done = Result(job=jobs[0], outcome=Outcome(items=(), status=0))
        schedule.results[jobs[0].id, 0] = done
        began = time.monotonic() - 3
        schedule.running = {(job.id, shard): began for job in jobs[1:] for shard in range(job.shards)}
        screen.watch(schedule, [done])
        for _ in range(times - 1):
            screen.watch(schedule, [])
        screen.close()
        return out.getvalue()

    return show


def job(name: str, shards: int = 1) -> LocalJob:
    return LocalJob(id=f".buildkite/cuda/test-ready.yml#{name}", label=name, shards=shards)


FIRST = "[1/{}] passed: .buildkite/cuda/test-ready.yml#a\n"


def test_a_pipe_gets_a_line_a_job_and_nothing_else(shown):
    assert shown(job("a"), job("b"), out=io.StringIO(), times=3) == FIRST.format(2)


def test_a_terminal_without_cursor_is_a_pipe(shown, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert shown(job("a"), job("b"), out=Terminal()) == FIRST.format(2)


@pytest.mark.parametrize(
    ("jobs", "line"),
    [
        ([job("b")], "1/2 done; now b 3 s"),
        ([job("b", 2)], "1/3 done; now b [1/2] 3 s, b [2/2] 3 s"),
        ([job("a-long-name"), job("and-another")], "1/3 done; now a-long-name 3 s, and-ano…"),
        ([job("日本語日本語日本語日本語")], "1/2 done; now 日本語日本語日本語日本語…"),
    ],
)
def test_a_terminal_shows_what_runs_in_one_line_that_fits(shown, monkeypatch, jobs, line):
    monkeypatch.setenv("TERM", "xterm")
    total = 1 + sum(one.shards for one in jobs)
    expected = f"{CLEAR}{FIRST.format(total)}{CLEAR}{line}{CLEAR}"
    # the same line is not written again
    assert shown(job("a"), *jobs, out=Terminal(), times=3) == expected
