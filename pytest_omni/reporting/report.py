"""report.json: what became of every collected test, for whoever was not there.

The format is schema 1. Every collected test stands there once, also when the session was cut short.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omni_hardware.errors import InfrastructureError, strip_controls
from pytest_omni.reporting.ledger import Kind, Ledger, Result, State

SCHEMA = 1
# always there, so that a reader need not ask; the other states are when a test came to them
_BEGINNING = b'{\n "schema": '
_COUNTED = (State.PASSED, State.FAILED, State.SKIPPED, State.DESELECTED, State.OTHER_SHARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the session was; source is "file PATH" where the devices come from a file, else None."""

    exit: int
    asked: str
    detected: str
    source: str | None
    run_level: str
    marks: str
    ended: str
    ended_kind: Kind


def document(ledger: Ledger, header: Header) -> dict[str, Any]:
    """Return the report as JSON types."""
    rows = {nodeid: _reasoned(result, header) for nodeid, result in ledger.rows()}
    return {
        "schema": SCHEMA,
        "exit": header.exit,
        "platform": _platform(header),
        "run_level": header.run_level,
        "weights": ledger.weights,
        "marks": header.marks,
        "shard": asdict(ledger.shard) if ledger.shard else None,
        "counts": _counts(rows),
        "items": [_item(nodeid, result) for nodeid, result in rows.items()],
        "servers": [asdict(record) for record in ledger.servers],
    }


def refusal(path: Path) -> str | None:
    """Return why no report can be written to *path*, as far as that can be known before there is one; else None."""
    if path.exists() and not path.is_file():
        # writing puts a new file in the old one's place: a device such as /dev/null would be lost to the machine
        return "it is a folder or a device"
    folder = next(parent for parent in path.parents if parent.exists())
    if not folder.is_dir():
        return f"{folder} is no folder"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"no permission to write in {folder}"


def remove_old(path: Path) -> None:
    """Remove an earlier session's report: a session that is killed leaves none, and the old one would look like its."""
    try:
        if path.is_file() and path.read_bytes().startswith(_BEGINNING):  # of another file, nothing is known
            path.resolve().unlink()
    except OSError:
        pass  # check_writable() says it better


def check_writable(path: Path) -> None:
    """Try to write beside *path*: a file system may refuse what its permissions allow. InfrastructureError says why."""
    if problem := refusal(path):
        raise InfrastructureError(problem)
    path = path.resolve()
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise InfrastructureError(str(error.strerror)) from error


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write *report* to *path*, whole or not at all; InfrastructureError says why it cannot be written."""
    if problem := refusal(path):
        raise InfrastructureError(f"{path}: the report cannot be written: {problem}")
    path = path.resolve()  # what a link points at is replaced, not the link
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(_text(report), encoding="utf-8", errors="backslashreplace")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InfrastructureError(f"{path}: the report cannot be written: {error.strerror}") from error


def _text(report: Mapping[str, Any]) -> str:
    # a line an item: a person finds a test with grep, and 20,000 of them stay readable
    return (
        "{\n" + ",\n".join(f" {json.dumps(key)}: {_value(value)}" for key, value in report.items()) + "\n}\n"
    )


def _value(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {_json(row)}" for row in value) + "\n ]"
    return _json(value)


def _json(value: object) -> str:
    # with backslashreplace, half of a surrogate pair in a file's name becomes the escape that JSON has for it
    return json.dumps(value, ensure_ascii=False)


def _reasoned(result: Result, header: Header) -> Result:
    if result.state is not State.NOT_RUN:
        return result
    return replace(result, because=result.because or header.ended, kind=result.kind or header.ended_kind)


def _platform(header: Header) -> dict[str, str]:
    found = {"asked": header.asked, "detected": header.detected}
    return {**found, "source": header.source} if header.source else found


def _counts(rows: Mapping[str, Result]) -> dict[str, int]:
    counts = Counter(result.state for result in rows.values())
    shown = [state for state in State if state in _COUNTED or counts[state]]
    return {"collected": len(rows), **{str(state): counts[state] for state in shown}}


def _item(nodeid: str, result: Result) -> dict[str, Any]:
    return {
        "id": nodeid,
        "state": str(result.state),
        "because": strip_controls(result.because) if result.because else None,
        "kind": str(result.kind) if result.kind else None,
        "setup_s": round(result.setup_s, 3),
        "call_s": round(result.call_s, 3),
    }
