"""How long tests and shared fixtures took: durations.json, read for a plan and written after a run.

{"schema": 1, "tests": {"tests/a.py::t": {"call_s": 20.1}},
 "fixtures": {"omni_server@tests/a.py[z_image]": {"setup_s": 240}}, "steps": {…}}

call_s is what a test costs by itself, its own set-up and tear-down included; setup_s is what building a shared
fixture once costs, tear-down included. "steps" belong to the pipeline and are carried along.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from omni_hardware.errors import InfrastructureError, InputError, did_you_mean

SCHEMA = 1
# table → the one number of its rows
_TABLES = {"tests": "call_s", "fixtures": "setup_s", "steps": "minutes"}
_READABLE = 0o644
_LOCK_S = 10.0  # a file of 20,000 tests is read and written in a fraction of a second
_LONGEST = 1e9  # 31 years, in seconds: what is above is a mistake, and sums of such overflow
_DIGITS = 4  # a tenth of a millisecond


@dataclass(frozen=True, slots=True)
class Durations:
    """What was measured so far: seconds by node id and by fixture key, minutes by pipeline step."""

    tests: Mapping[str, float] = field(default_factory=dict)
    fixtures: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)

    def updated(self, newer: Durations) -> Durations:
        """Return both, where *newer* wins."""
        return Durations(
            {**self.tests, **newer.tests}, {**self.fixtures, **newer.fixtures}, {**self.steps, **newer.steps}
        )

    def to_json(self) -> dict[str, Any]:
        """Return the document of durations.json, sorted so that two versions of it compare well."""
        rows = {
            table: {
                key: {number: round(value, _DIGITS)} for key, value in sorted(getattr(self, table).items())
            }
            for table, number in _TABLES.items()
        }
        return {"schema": SCHEMA, **{table: found for table, found in rows.items() if found}}


def load(path: Path) -> Durations:
    """Return what is in *path*, nothing for a file that is not there yet.

    Raises InputError with every problem of the file, one a line, or InfrastructureError when it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Durations()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8, so no durations.json") from error
    except OSError as error:
        raise InfrastructureError(f"{path}: cannot be read: {error.strerror}") from error
    twice: list[str] = []
    try:
        document = json.loads(text, object_pairs_hook=partial(_object, twice))
    except (json.JSONDecodeError, RecursionError) as error:
        where = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}{where}: not JSON: {getattr(error, 'msg', error)}") from error
    if twice:
        told = "stands twice in one object, and only one of the two can count: keep one"
        raise InputError("\n".join(f"{path}: the key {key!r} {told}" for key in dict.fromkeys(twice)))
    return parse(document, source=str(path))


def parse(document: object, *, source: str) -> Durations:
    """Return the durations in *document*; InputError holds one line a problem, each beginning with *source*."""
    if not isinstance(document, dict):
        raise InputError(f"{source}: must be an object with schema, tests and fixtures, not {document!r:.60}")
    problems = [
        f"{key}: unknown key{did_you_mean(str(key), ['schema', *_TABLES])}"
        for key in document
        if key not in {"schema", *_TABLES}
    ]
    if document.get("schema") != SCHEMA:
        problems.append(f"schema: must be {SCHEMA}, not {document.get('schema')!r}")
    tables = {table: dict(_rows(table, document.get(table, {}), problems)) for table in _TABLES}
    if problems:
        raise InputError("\n".join(f"{source}: {problem}" for problem in problems))
    return Durations(**tables)


def save(path: Path, durations: Durations) -> None:
    """Write *durations* to *path*, whole or not at all; InfrastructureError says why not."""
    import tempfile  # only a run that measures pays for it

    if path.exists() and not path.is_file():  # replacing /dev/null would take it from the whole machine
        raise InfrastructureError(f"{path}: cannot be written: it is no regular file")
    path = path.resolve()  # a link stays one
    text = json.dumps(durations.to_json(), indent=1, ensure_ascii=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="surrogatepass",
            dir=path.parent,
            prefix=f".{path.name}-",
            delete=False,
        ) as file:
            file.write(text)
        try:
            Path(file.name).chmod(_READABLE)  # a temporary file is its owner's alone
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink()
            raise
    except OSError as error:
        raise InfrastructureError(f"{path}: cannot be written: {error.strerror}") from error


def update(path: Path, measured: Durations) -> None:
    """Write *measured* into what *path* holds by now; another session that does the same at this moment loses nothing."""
    with _alone_in(path.parent):
        save(path, load(path).updated(measured))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock on *folder*, which leaves no file behind; where there are no such locks, go on without."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # save() says so in words
        yield
        return
    try:
        deadline = time.monotonic() + _LOCK_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(handle)


def part_path(path: Path, shard: int, shards: int) -> Path:
    """Return where one shard writes what it measured: beside *path*, which must not change while others still plan."""
    return path if shards == 1 else path.with_name(f"{path.stem}.{shard}-of-{shards}{path.suffix}")


def _object(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of *pairs*, for ``json.loads``; keys that stand in it more than once are added to *twice*."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = Counter(key for key, _ in pairs)
        twice += [key for key, count in seen.items() if count > 1]
    return found


def _rows(table: str, found: object, problems: list[str]) -> Iterator[tuple[str, float]]:
    number = _TABLES[table]
    if not isinstance(found, dict):
        problems.append(f"{table}: must be an object, not {found!r:.60}")
        return
    for key, row in found.items():
        value = row.get(number) if isinstance(row, dict) else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LONGEST
        if is_number and len(row) == 1:
            yield key, float(value)  # type: ignore[arg-type]
        else:
            problems += _wrong(f"{table}[{key!r}]", row, number, is_number=is_number)


def _wrong(where: str, row: object, number: str, *, is_number: bool) -> Iterator[str]:
    if not isinstance(row, dict):
        yield f'{where}: must be an object like {{"{number}": 1.5}}, not {row!r:.60}'
        return
    for name in row:
        if name != number:
            yield f"{where}.{name}: unknown key{did_you_mean(name, [number])}"
    if not is_number:
        yield f"{where}.{number}: must be a number from 0 to {_LONGEST:g}, not {row.get(number)!r}"
