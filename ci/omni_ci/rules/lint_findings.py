"""What `lint` says, and the three ways in which it says it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from omni_ci.showing.escaping import html_cell, one_line

if TYPE_CHECKING:
    from omni_ci.rules.baseline import Compared

_ANNOTATED_AT_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LintFinding:
    """What a rule found, at its place; *code*, *subject* and *key* name it wherever it moves."""

    file: str
    line: int
    code: str
    message: str
    subject: str
    key: str

    def __str__(self) -> str:
        """Return "file:line: CI001 message", in one line."""
        return one_line(f"{self.file}:{self.line}: {self.code} {self.message}")


def as_text(compared: Compared) -> str:
    """Return a line a finding."""
    return "".join(f"{finding}\n" for finding in compared.new)


def as_json(compared: Compared) -> str:
    """Return the findings for a program."""
    document = {
        "schema": 1,
        "findings": [asdict(finding) for finding in compared.new],
        "known": compared.known,
        "stale": [asdict(entry) for entry in compared.stale],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_annotation(compared: Compared) -> str:
    """Return Markdown for a build's page; all text in it is escaped."""
    shown = compared.new[:_ANNOTATED_AT_MOST]
    rows = "".join(
        f"<tr><td>{html_cell(finding.code)}</td><td>{html_cell(f'{finding.file}:{finding.line}')}</td>"
        f"<td>{html_cell(finding.message)}</td></tr>\n"
        for finding in shown
    )
    more = len(compared.new) - len(shown)
    rest = f"<p>… and {more} more: <code>omni-ci lint</code></p>\n" if more else ""
    table = f"<table><tr><th>rule</th><th>place</th><th>finding</th></tr>\n{rows}</table>\n" if rows else ""
    return f"<p><b>omni-ci lint</b>: {html_cell(counted(compared))}</p>\n{table}{rest}"


FORMATS = {"text": as_text, "json": as_json, "annotation": as_annotation}


def counted(compared: Compared) -> str:
    """Return the sentence that says how many findings there are, and how many the baseline covers."""
    found = len(compared.new)
    what = f"{found} finding{'' if found == 1 else 's'}" if found else "nothing found"
    known = f", {compared.known} known from the baseline" if compared.known else ""
    return what + known
