"""Path patterns."""

from __future__ import annotations

import pytest

from omni_ci.repository.patterns import literal_prefix, matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "docs", False),
        ("docs/", "docs/a/b.png", True),
        ("**/*.md", "README.md", True),
        ("**/*.md", "a/b/c.md", True),
        ("**/*.md", "a/b/c.mdx", False),
        ("*.md", "a/b.md", False),
        ("mkdocs.yml", "mkdocs.yml", True),
        ("mkdocs.yml", "mkdocsxyml", False),
        (".buildkite/bootstrap*", ".buildkite/bootstrap-upload.yml", True),
        (".buildkite/bootstrap*", ".buildkite/bootstrap/a.yml", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**", "línea\nnueva/é.py", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(path, ["never", pattern]) is expected


def test_no_pattern_matches_nothing() -> None:
    assert not matches("a", [])


def test_the_literal_start_of_a_pattern() -> None:
    assert literal_prefix("tests/a*/b") == "tests/a"
    assert literal_prefix("tests/a") == "tests/a"
