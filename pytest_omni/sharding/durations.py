"""How long tests and shared fixtures took: durations.json, read for a plan and written after a run.

{"schema": 1, "tests": {"tests/a.py::t": {"call_s": 20.1}},
 "fixtures": {"omni_server@tests/a.py[z_image]": {"setup_s": 240}}, "steps": {…}}

call_s is what a test costs by itself, its own set-up and tear-down included; setup_s is what building a shared
fixture once costs, tear-down included. "steps" belong to the pipeline and are carried along.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omni_hardware.errors import InfrastructureError, InputError, did_you_mean

SCHEMA = 1
# table → the one number of its rows
_TABLES = {"tests": "call_s", "fixtures": "setup_s", "steps": "minutes"}
_READABLE = 0o644
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
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}{where}: not JSON: {getattr(error, 'msg', error)}") from error
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


def part_path(path: Path, shard: int, shards: int) -> Path:
    """Return where one shard writes what it measured: beside *path*, which must not change while others still plan."""
    return path if shards == 1 else path.with_name(f"{path.stem}.{shard}-of-{shards}{path.suffix}")


def _rows(table: str, found: object, problems: list[str]) -> Iterator[tuple[str, float]]:
    number = _TABLES[table]
    if not isinstance(found, dict):
        problems.append(f"{table}: must be an object, not {found!r:.60}")
        return
    for key, row in found.items():
        where = f"{table}[{key!r}]"
        if not isinstance(row, dict):
            problems.append(f'{where}: must be an object like {{"{number}": 1.5}}, not {row!r:.60}')
            continue
        problems += [
            f"{where}.{name}: unknown key{did_you_mean(name, [number])}" for name in row if name != number
        ]
        value = row.get(number)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            problems.append(f"{where}.{number}: must be a number of 0 or more, not {value!r}")
        else:
            yield key, float(value)
