from __future__ import annotations

import time

import pytest

from omni_ci.rules.linting import chosen, findings, load_repository

STEPS = "- {label: All, key: all, commands: [pytest tests]}"


def test_a_mistake_of_syntax_has_its_line(asked):
    (one,) = asked(
        "CI009", STEPS, {"tests/test_a.py": "def test_a():\n    return (\n", "tools/test_b.py": "("}
    )
    assert (one.file, one.line, one.subject, one.key) == ("tests/test_a.py", 2, "tests/test_a.py", "")
    assert one.message.endswith("cannot parse it: '(' was never closed; no rule judges what it holds")


def test_a_conftest_above_counts_too(found):
    (one,) = found("CI009", STEPS, {"tests/one/test_a.py": "", "tests/conftest.py": "import\n"})
    assert "cannot parse it" in one


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"\xff\xfe", "cannot parse it: "),
        (b"x = 1\x00", "cannot parse it: source code string cannot contain null bytes"),
        (b"(" * 5000, "cannot parse it: "),
        (b"#" * (2**20 + 1), "has 1,048,577 characters, and lint reads 1,048,576 of a file at most"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, asked, written, said):
    asked("CI009", STEPS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_bytes(written)
    (one,) = findings(load_repository(tmp_path).context, chosen(["CI009"], ()))
    assert said in one.message


def test_a_link_that_leads_nowhere_ends_no_lint(tmp_path, asked):
    asked("CI009", STEPS, {"tests/test_a.py": ""})
    (tmp_path / "tests/test_b.py").symlink_to("nope")
    context = load_repository(tmp_path).context
    context.names |= {"tests/test_b.py"}
    (one,) = findings(context, chosen(["CI009"], ()))
    assert one.message == (
        "is a link to nope, which does not exist; mend the link or take it away; no rule judges what it holds"
    )


@pytest.mark.parametrize(
    "written",
    ["# coding: latin-1\nx = '\u00e9'\n".encode("latin-1"), "x = 'é'\n".encode(), b"\xef\xbb\xbfx = 1\n"],
)
def test_what_python_reads_is_fine(tmp_path, asked, written):
    asked("CI009", STEPS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_bytes(written)
    assert list(findings(load_repository(tmp_path).context, chosen(["CI009"], ()))) == []


def test_a_huge_file_costs_no_minute(asked):
    huge = "def test_x(): pass\n" * 400_000
    before = time.process_time()
    for code in ("CI002", "CI009", "CI303"):
        asked(code, STEPS, {"tests/test_a.py": huge})
    assert time.process_time() - before < 10
