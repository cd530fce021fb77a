"""The file through which a fresh process tells how its test went: one JSON object a line, written at once."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest


def folder(config: pytest.Config) -> Path:
    """Return a new folder below pytest's own temporary one."""
    # Private, but pytest's own fixture has it from there too; without it the folder is one of the system's.
    factory = getattr(config, "_tmp_path_factory", None)
    return Path(factory.mktemp("fresh") if factory else tempfile.mkdtemp(prefix="pytest-omni-fresh-"))


def report_file(config: pytest.Config) -> Path:
    """Return where a process may write its lines."""
    return folder(config) / "reports.jsonl"


def serialised(config: pytest.Config, report: pytest.TestReport) -> dict[str, Any]:
    """Return *report* as plain values, the way pytest-xdist gets them from its workers."""
    return dict(config.hook.pytest_report_to_serializable(config=config, report=report))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add one line: {"report": ...} or {"said": "..."}; what JSON does not know is written as text."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, default=str) + "\n")


def read(path: Path) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Return the reports by phase, and what else was said; a last line that was cut off does not count."""
    reports: dict[str, dict[str, Any]] = {}
    said: list[str] = []
    for row in _rows(path):
        if "report" in row:
            reports[row["report"]["when"]] = row["report"]
        else:
            said.append(str(row["said"]))
    return reports, tuple(said)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield json.loads(line)
