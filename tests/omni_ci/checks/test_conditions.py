from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.checks.conditions import ConditionError, check_condition

GOOD = [
    'build.env("NIGHTLY") == "1"',
    'build.env("NIGHTLY") == "1" || build.pull_request.labels includes "nightly-test"',
    '(build.branch == "main" && build.env("WEEKLY") != "1") || !(build.pull_request.draft)',
    "build.message !~ /\\[skip tests\\]/i",
    "build.tag =~ /^v[0-9]+$/",
    "build.pull_request.id == null",
    "!build.pull_request.draft // not for drafts",
    "build.branch == '${BRANCH}' || build.branch == $DEFAULT",
    "pipeline.slug == 'x' && organization.slug != 'y'",
    "true",
]
BAD = {
    "": "expected a value",
    "build.branch = 'main'": "cannot be read",
    "build.branch == ": "the end of",
    "branch == 'main'": "unknown name 'branch'",
    "biuld.branch == 'main'": "did you mean 'build'",
    "build.branch == 'main' build.tag": "expected && or ||",
    "(build.branch == 'main'": "expected ')'",
    "build.branch == 'main": "cannot be read",
    "build.env('A'": "expected ')'",
    "build.branch == 'a' || ": "the end of",
    "includes 'x'": "expected a value",
}


@pytest.mark.parametrize("text", GOOD)
def test_what_buildkite_reads_passes(text: str) -> None:
    check_condition(text)


@pytest.mark.parametrize("text", BAD)
def test_what_it_does_not_read_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(ConditionError) as refused:
        check_condition(text)
    assert BAD[text] in str(refused.value)


@given(
    st.recursive(
        st.sampled_from(GOOD[:5]), lambda inner: st.builds("({}) && !({})".format, inner, inner), max_leaves=6
    )
)
@settings(max_examples=50)
def test_what_passes_may_be_joined(text: str) -> None:
    check_condition(text)


@given(st.text(max_size=30))
@settings(max_examples=50)
def test_any_text_passes_or_is_refused_in_words(text: str) -> None:
    refused = None
    try:
        check_condition(text)
    except ConditionError as error:
        refused = str(error)
    assert refused is None or repr(text) in refused


def test_parentheses_without_end_are_one_message() -> None:
    with pytest.raises(ConditionError, match="parentheses are more than 50 deep"):
        check_condition("(" * 3000 + "true")
    check_condition("(" * 50 + "true" + ")" * 50)
