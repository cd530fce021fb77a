from __future__ import annotations

from pathlib import Path

import pytest

from omni_ci.coverage.report import Lines, read_report
from omni_hardware.errors import InputError

ROOT = Path("/repo")


def xml(*files: tuple[str, dict[int, int]], sources: tuple[str, ...] = ("/repo/omni",)) -> bytes:
    classes = "".join(
        f'<class filename="{name}"><lines>'
        + "".join(f'<line number="{number}" hits="{hits}"/>' for number, hits in lines.items())
        + "</lines></class>"
        for name, lines in files
    )
    listed = "".join(f"<source>{source}</source>" for source in sources)
    return (
        f"<coverage><sources>{listed}</sources><packages><package><classes>{classes}</classes></package></packages>"
        "</coverage>"
    ).encode()


def read(content: bytes, existing: tuple[str, ...] = ()):
    return read_report(content, root=ROOT, exists=existing.__contains__)


def test_lines_are_summed_per_package_below_the_root():
    report = read(
        xml(
            ("cli.py", {1: 1, 2: 0}),
            ("serving/app.py", {1: 1, 2: 3}),
            ("serving/errors.py", {1: 0}),
            ("models/tiny/z_image.py", {1: 0, 5: 1}),
        )
    )
    assert report.total == Lines(covered=4, valid=7)
    assert report.packages == {
        "omni": Lines(covered=1, valid=2),
        "omni/models": Lines(covered=1, valid=2),
        "omni/serving": Lines(covered=2, valid=3),
    }


def test_a_file_belongs_to_the_source_in_which_it_exists():
    report = read(
        xml(("a.py", {1: 1}), ("b.py", {1: 1}), sources=("/repo/omni", "/repo/lib")),
        existing=("/repo/omni/a.py", "/repo/lib/b.py"),
    )
    assert set(report.packages) == {"omni", "lib"}


def test_a_file_outside_the_root_keeps_its_place():
    report = read(xml(("a.py", {1: 1}), sources=("/elsewhere/site-packages",)))
    assert set(report.packages) == {"elsewhere/site-packages"}


def test_the_fingerprint_tells_which_lines_were_covered_not_how_often():
    once, often, other = (read(xml(("a.py", hits))) for hits in ({1: 1, 2: 0}, {1: 9, 2: 0}, {1: 0, 2: 1}))
    assert once.fingerprint == often.fingerprint
    assert once.fingerprint != other.fingerprint
    assert once.total == other.total


@pytest.mark.parametrize(
    ("content", "text"), [(b"", "not XML"), (b"<a", "not XML"), (b"<html/>", "root element is <html>")]
)
def test_what_is_no_report_is_refused(content, text):
    with pytest.raises(InputError, match=text):
        read(content)
