"""A baseline: the findings that a repository has decided to live with for now, told apart without line numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from omni_ci.rules.lint_findings import LintFinding
from omni_hardware.errors import InputError, did_you_mean

SCHEMA = 1
_KEYS = ("schema", "findings")
_ENTRY_KEYS = ("code", "subject", "key", "count")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A finding's name: the rule, what it is about, and which of the things that are wrong with that."""

    code: str
    subject: str
    key: str

    @classmethod
    def of(cls, finding: LintFinding) -> Entry:
        """Return the name of *finding*."""
        return cls(finding.code, finding.subject, finding.key)

    def __str__(self) -> str:
        """Return the entry for people."""
        return f"{self.code} {self.subject}" + (f" ({self.key})" if self.key else "")


@dataclass(frozen=True, slots=True)
class Compared:
    """What a baseline leaves of the findings, how many it covers, and its entries that nothing matches any more."""

    new: tuple[LintFinding, ...]
    known: int
    stale: tuple[Entry, ...]


def compared(findings: Sequence[LintFinding], baseline: Counter[Entry], *, codes: Iterable[str]) -> Compared:
    """Return *findings* without those that *baseline* names, as often as it names them.

    *codes* are the rules that were asked: an entry of another one is not stale, just not looked for.
    """
    left = Counter(baseline)
    new: list[LintFinding] = []
    for finding in findings:
        entry = Entry.of(finding)
        if left[entry] > 0:
            left[entry] -= 1
        else:
            new.append(finding)
    asked = frozenset(codes)
    stale = tuple(sorted(entry for entry, count in left.items() if count > 0 and entry.code in asked))
    return Compared(tuple(new), len(findings) - len(new), stale)


def baseline_text(findings: Iterable[LintFinding]) -> str:
    """Return the baseline that names *findings*, in an order that does not depend on where they stand."""
    counts = Counter(map(Entry.of, findings))
    rows = [
        {"code": entry.code, "subject": entry.subject, "key": entry.key, "count": counts[entry]}
        for entry in sorted(counts)
    ]
    return json.dumps({"schema": SCHEMA, "findings": rows}, indent=2, ensure_ascii=False) + "\n"


def load_baseline(text: str, *, name: str) -> Counter[Entry]:
    """Return the entries of a baseline, each as often as it counts. Raises InputError naming the entry."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}:{error.lineno}:{error.colno}: no JSON: {error.msg}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f'{name}: no baseline: it must be an object with "schema": {SCHEMA}')
    _refuse_unknown(document, _KEYS, name)
    rows = document.get("findings")
    if not isinstance(rows, list):
        raise InputError(f'{name}: "findings" must be a list')
    found: Counter[Entry] = Counter()
    for index, row in enumerate(rows):
        entry, count = _entry(row, f"{name}: findings[{index}]")
        found[entry] += count
    return found


def _entry(row: Any, where: str) -> tuple[Entry, int]:
    if not isinstance(row, dict):
        raise InputError(f"{where} must be an object")
    _refuse_unknown(row, _ENTRY_KEYS, where)
    code, subject, key, count = (row.get(name) for name in _ENTRY_KEYS)
    if not (isinstance(code, str) and isinstance(subject, str) and isinstance(key, str)):
        raise InputError(f"{where}: code, subject and key must be texts")
    if isinstance(count, bool) or not isinstance(count, int | None) or (count is not None and count < 1):
        raise InputError(f"{where}: count must be a whole number, 1 or more")
    return Entry(code, subject, key), count or 1


def _refuse_unknown(row: dict[str, Any], known: Sequence[str], where: str) -> None:
    if unknown := sorted(row.keys() - {*known}):
        raise InputError(f"{where}: unknown key {unknown[0]!r}{did_you_mean(unknown[0], known)}")
