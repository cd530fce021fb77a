"""What a coverage XML report says: lines covered, in total and per package. Pure, apart from asking what exists."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree as ET

from omni_hardware.errors import InputError

# omni/serving and omni/engine, not every folder below them: a table a person reads in one look.
PACKAGE_DEPTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines covered, of the lines that could be."""

    covered: int
    valid: int

    def __str__(self) -> str:
        return f"{self.covered}/{self.valid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report's figures. Two reports with one `fingerprint` cover exactly the same lines."""

    total: Lines
    packages: Mapping[str, Lines]
    fingerprint: str


def read_report(
    xml: bytes, *, root: Path, exists: Callable[[str], bool] = os.path.exists, depth: int = PACKAGE_DEPTH
) -> Report:
    """Return the figures of a Cobertura report as coverage.py writes it; *root* shortens the package names.

    Raises InputError when it is not such a report.
    """
    try:
        tree = ET.fromstring(xml)  # noqa: S314 - reads what our own child wrote
    except ET.ParseError as error:
        raise InputError(f"not XML: {error}") from None
    if tree.tag != "coverage":
        raise InputError(f"not a coverage report: its root element is <{tree.tag}>")
    sources = [source.text or "" for source in tree.iterfind("./sources/source")]
    covered: Counter[str] = Counter()
    valid: Counter[str] = Counter()
    digest = hashlib.sha256()
    for entry in tree.iter("class"):
        path = _path_of(entry.get("filename", ""), sources, root=root, exists=exists)
        package = "/".join(PurePosixPath(path).parent.parts[:depth]) or "."
        for line in entry.iterfind("./lines/line"):
            valid[package] += 1
            if int(line.get("hits", "0")):
                covered[package] += 1
                digest.update(f"{path}:{line.get('number')}\n".encode())
    return Report(
        total=Lines(covered=covered.total(), valid=valid.total()),
        packages={name: Lines(covered=covered[name], valid=valid[name]) for name in sorted(valid)},
        fingerprint=digest.hexdigest(),
    )


def _path_of(filename: str, sources: list[str], *, root: Path, exists: Callable[[str], bool]) -> str:
    """Return the file's path below *root*; reports name files relative to one of their sources."""
    candidates = [str(Path(source) / filename) for source in sources] or [filename]
    path = Path(next((candidate for candidate in candidates if exists(candidate)), candidates[0]))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix().lstrip("/")
