from __future__ import annotations

import json

from omni_ci.rules.baseline import Compared, Entry
from omni_ci.rules.lint_findings import LintFinding, as_annotation, as_json, as_text, counted

HOSTILE = LintFinding(
    file="<img src=x onerror=alert(1)>.yml",
    line=3,
    code="CI001",
    message="a | b `c`\n\n\x1b[31md",
    subject="s",
    key="k",
)
ONE = Compared((HOSTILE,), 2, (Entry("CI002", "p.yml#a", "x"),))
NONE = Compared((), 0, ())


def test_text_is_a_line_a_finding():
    assert as_text(ONE) == "<img src=x onerror=alert(1)>.yml:3: CI001 a | b `c` [31md\n"
    assert as_text(NONE) == ""


def test_json_has_everything_that_a_baseline_needs():
    document = json.loads(as_json(ONE))
    assert document["findings"] == [
        {
            "file": "<img src=x onerror=alert(1)>.yml", "line": 3, "code": "CI001", "message": "a | b `c`\n\n\x1b[31md",
            "subject": "s", "key": "k",
        }
    ]  # fmt: skip
    assert (document["schema"], document["known"]) == (1, 2)
    assert document["stale"] == [{"code": "CI002", "subject": "p.yml#a", "key": "x"}]


def test_an_annotation_escapes_whatever_a_file_is_called():
    text = as_annotation(ONE)
    assert "<img" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;.yml:3" in text
    assert "a &#124; b &#96;c&#96;" in text
    assert "1 finding, 2 known from the baseline" in text
    assert "\n\n" not in text


def test_an_annotation_of_many_says_how_many_more():
    many = tuple(
        LintFinding(file="p.yml", line=n, code="CI001", message="m", subject="s", key="k") for n in range(250)
    )
    assert "… and 50 more" in as_annotation(Compared(many, 0, ()))
    assert "<table>" not in as_annotation(NONE)


def test_the_count_is_a_sentence():
    assert counted(NONE) == "nothing found"
    assert counted(Compared((), 3, ())) == "nothing found, 3 known from the baseline"
    assert counted(Compared((HOSTILE, HOSTILE), 0, ())) == "2 findings"
