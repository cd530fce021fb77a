"""The `timeout` programs of a step's commands, and what they bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from omni_ci.rules.jobs import Job
from omni_ci.shell.runs import Command, PytestRun, pytest_runs, shell_arguments

_DURATION = re.compile(r"(\d+(?:\.\d+)?|\.\d+)([smhd]?)")
_MINUTES = {"s": 1 / 60, "": 1 / 60, "m": 1.0, "h": 60.0, "d": 1440.0}
_VALUED = frozenset(["-k", "-s", "--kill-after", "--signal"])


@dataclass(frozen=True, slots=True)
class Bound:
    """A test run, or a script with some, under `timeout`; *minutes* is None where only run time knows them."""

    written: str
    minutes: float | None
    is_coverage: bool


def bounds(job: Job) -> Iterator[Bound]:
    """Yield the `timeout`s around test runs."""
    for command in job.script.commands:
        if command.name == "timeout" and (runs := _runs(command)):
            written = _duration(command)
            yield Bound(written, _minutes(written), any(run.measures_coverage for run in runs))


def unbounded_runs(job: Job) -> int:
    """Return how many of the step's test runs stand under no `timeout`."""
    bounded = sum(len(_runs(one)) for one in job.script.commands if one.name == "timeout")
    return max(0, len(job.runs) - bounded)


def _runs(command: Command) -> tuple[PytestRun, ...]:
    inline = shell_arguments(command.words)
    return pytest_runs(inline.script if inline else " ".join(command.words))


def _duration(command: Command) -> str:
    words = iter(command.words[1:])
    for word in words:
        if not word.startswith("-"):
            return word
        if word in _VALUED:
            next(words, None)
    return ""


def _minutes(written: str) -> float | None:
    found = _DURATION.fullmatch(written)
    return float(found[1]) * _MINUTES[found[2]] if found else None
