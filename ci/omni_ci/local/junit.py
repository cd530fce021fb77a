"""One JUnit file for a run: a suite a job, a case an item."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from omni_ci.local.results import Result
from omni_ci.runner.table import meaning, shown
from omni_hardware.processes import log_tail

_TAIL_LINES = 60
# What XML 1.0 cannot say at all, not even escaped.
_ODD = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(results: Sequence[Result], folder: Path) -> str:
    """Return the XML; a failed item carries the end of its job's log, a job that was not run its reason."""
    root = ET.Element("testsuites", name="omni-ci run")
    for result in results:
        _suite(root, result, folder)
    for key in ("tests", "failures", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, result: Result, folder: Path) -> None:
    title = _clean(result.title)
    suite = ET.SubElement(root, "testsuite", name=title, time=f"{result.seconds:.3f}")
    if result.outcome is None or not result.outcome.items:
        case = ET.SubElement(suite, "testcase", classname=title, name=_clean(result.job.label))
        kind = "skipped" if result.outcome is None else "failure"
        ET.SubElement(case, kind, message=_clean(result.because))
        counts = (1, int(kind == "failure"), int(kind == "skipped"))
    else:
        items = result.outcome.items
        for number, item in enumerate(items, 1):
            name = _clean(f"{number}: {shown(item.command)}")
            case = ET.SubElement(suite, "testcase", classname=title, name=name, time=f"{item.seconds:.3f}")
            if item.status is None:
                ET.SubElement(case, "skipped", message="not run")
            elif item.status:
                message = _clean(f"exit {item.status}, {meaning(item)}{'; ' if item.note else ''}{item.note}")
                kind = "skipped" if result.is_soft else "failure"
                ET.SubElement(case, kind, message=message).text = _clean(
                    log_tail(folder / result.log, _TAIL_LINES)
                )
        failed = 0 if result.is_soft else sum(bool(item.status) for item in items)
        left_out = sum(item.status is None or (result.is_soft and bool(item.status)) for item in items)
        counts = (len(items), failed, left_out)
    for key, count in zip(("tests", "failures", "skipped"), counts, strict=True):
        suite.set(key, str(count))


def _clean(text: str) -> str:
    return _ODD.sub("", text)
