"""The tables in the docs say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HTTP = {
    "200",
    "400",
    "404",
    "413",
    "500",
    "503",
    "124",
    "125",
    "141",
    "300",
}  # statuses and exit codes in test names
ROOT = Path(__file__).resolve().parents[2]


def test_generated_tables_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/docs_tables.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_public_report_in_a_tests_name_reaches_the_page() -> None:
    # A number that long in a name is a report's; one that the page misses has a tracker nobody listed.
    named = re.compile(r"^\s*def test_[a-z_]+?(\d{3,})_", re.MULTILINE)
    page = (ROOT / "docs/contributing/field-reports.md").read_text(encoding="utf-8")
    numbers = {
        number
        for path in ROOT.glob("tests/**/test_*.py")
        for number in named.findall(path.read_text(encoding="utf-8"))
        if number not in HTTP
    }
    assert numbers
    assert {number for number in numbers if f"#{number} " not in page} == set()
