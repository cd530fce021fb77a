"""Whether the coverage of a server that has ended was recorded; a report that lacks it must not look complete."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

# What coverage looks for when a Python process starts; its own names.
STARTERS = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")


class Recorded(StrEnum):
    """What became of the server's coverage; the words of report.json."""

    RECORDED = "recorded"
    LOST = "lost"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of it, and why; *measuring* = this session measures, so that "off" is worth a word."""

    state: Recorded
    because: str
    measuring: bool


@dataclass(frozen=True, slots=True)
class Measuring:
    """How this session measures: where the data files go, and whether SIGTERM saves them. None, if it does not."""

    data_file: Path
    sigterm: bool


def judge(
    env: Mapping[str, str],
    *,
    killed: bool,
    pids: Collection[int],
    measuring: Measuring | None,
    files: Collection[str],
) -> Verdict:
    """Return what became of the coverage of a server with *env* and *pids*; *files* = names of all data files."""
    active = measuring is not None
    if not any(env.get(name) for name in STARTERS):
        return Verdict(Recorded.OFF, f"its environment has none of {', '.join(STARTERS)}", active)
    if any(f".pid{pid}." in name for pid in pids for name in files):
        return Verdict(Recorded.RECORDED, "a data file carries one of its pids", active)
    if killed:
        return Verdict(Recorded.LOST, "it was killed before it could write its data", active)
    if measuring is None:  # measured for somebody else, who knows where the files are
        return Verdict(Recorded.RECORDED, "it ended in order", active)
    hint = "" if measuring.sigterm else "; `sigterm = true` in [tool.coverage.run] makes SIGTERM save it"
    return Verdict(Recorded.LOST, f"no data file of it beside {measuring.data_file}{hint}", active)


def measuring() -> Measuring | None:
    """Return how coverage measures this process, None where it does not; coverage is never imported for that."""
    coverage: Any = sys.modules.get("coverage")
    current = coverage.Coverage.current() if hasattr(coverage, "Coverage") else None
    if current is None:
        return None
    data_file = Path(str(current.get_option("run:data_file"))).absolute()
    return Measuring(data_file, bool(current.get_option("run:sigterm")))


def data_files(found: Measuring | None) -> list[str]:
    """Return the names of the data files beside the session's own."""
    if found is None:
        return []
    return [path.name for path in found.data_file.parent.glob(f"{found.data_file.name}*")]
