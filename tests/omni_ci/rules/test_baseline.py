"""Findings told apart without line numbers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_ci.rules.baseline import Entry, baseline_text, compared, load_baseline
from omni_ci.rules.lint_findings import LintFinding
from omni_hardware.errors import InputError


def finding(code: str = "CI001", *, line: int = 3, subject: str = "p.yml#a", key: str = "x/") -> LintFinding:
    return LintFinding(file="p.yml", line=line, code=code, message="m", subject=subject, key=key)


def test_a_baseline_covers_a_finding_wherever_it_moves():
    baseline = load_baseline(baseline_text([finding(line=3)]), name="b.json")
    moved, other = finding(line=90), finding(key="y/")
    found = compared([moved, other], baseline, codes=["CI001"])
    assert (found.new, found.known, found.stale) == ((other,), 1, ())


def test_it_covers_as_many_as_it_counts_and_no_more():
    baseline = load_baseline(baseline_text([finding(line=3)]), name="b.json")
    found = compared([finding(line=3), finding(line=9)], baseline, codes=["CI001"])
    assert (found.new, found.known) == ((finding(line=9),), 1)


def test_an_entry_that_nothing_matches_is_stale_where_its_rule_was_asked():
    baseline = Counter([Entry("CI001", "p.yml#gone", ""), Entry("CI002", "p.yml#a", "z")])
    assert compared([], baseline, codes=["CI001"]).stale == (Entry("CI001", "p.yml#gone", ""),)


def test_a_written_baseline_has_no_lines_and_is_sorted():
    assert baseline_text([finding("CI002"), finding(line=1), finding(line=2)]) == (
        '{\n  "schema": 1,\n  "findings": [\n'
        '    {\n      "code": "CI001",\n      "subject": "p.yml#a",\n      "key": "x/",\n      "count": 2\n    },\n'
        '    {\n      "code": "CI002",\n      "subject": "p.yml#a",\n      "key": "x/",\n      "count": 1\n    }\n'
        "  ]\n}\n"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "b.json:1:2: no JSON"),
        ("[]", 'no baseline: it must be an object with "schema": 1'),
        ('{"schema": 2, "findings": []}', '"schema": 1'),
        ('{"schema": 1, "finding": []}', "unknown key 'finding' (did you mean 'findings'?)"),
        ('{"schema": 1}', '"findings" must be a list'),
        ('{"schema": 1, "findings": [1]}', "findings[0] must be an object"),
        ('{"schema": 1, "findings": [{"code": "CI001"}]}', "code, subject and key must be texts"),
        (
            '{"schema": 1, "findings": [{"code": "a", "subject": "b", "key": "c", "line": 3}]}',
            "unknown key 'line'",
        ),
        (
            '{"schema": 1, "findings": [{"code": "a", "subject": "b", "key": "c", "count": 0}]}',
            "count must be",
        ),
    ],
)
def test_a_wrong_baseline_is_told_with_the_place(text, says):
    with pytest.raises(InputError) as caught:
        load_baseline(text, name="b.json")
    assert says in str(caught.value)


words = st.text(max_size=8)
some = st.lists(st.builds(finding, words, line=st.integers(1, 9), subject=words, key=words))


@given(some, some)
def test_what_was_written_covers_itself_and_nothing_of_the_rest_is_lost(old, new):
    baseline = load_baseline(baseline_text(old), name="b.json")
    assert compared(old, baseline, codes=[one.code for one in old]).new == ()
    found = compared([*old, *new], baseline, codes=())
    assert len(found.new) + found.known == len(old) + len(new)
