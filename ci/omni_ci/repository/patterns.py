"""Path patterns: `*` and `?` stay within one folder, `**` crosses folders, a trailing `/` means the folder's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Return whether *path* matches one of *patterns*."""
    return bool(patterns) and _compiled(tuple(patterns)).fullmatch(path) is not None


def matching(paths: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the paths that match one of *patterns*, in order."""
    return [path for path in paths if matches(path, patterns)]


def literal_prefix(pattern: str) -> str:
    """Return the part of *pattern* before its first wildcard: every match starts with it."""
    return re.split(r"[*?]", pattern, maxsplit=1)[0]


@lru_cache(maxsize=512)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_translated(pattern)})" for pattern in patterns), re.DOTALL)


def _translated(pattern: str) -> str:
    if pattern.endswith("/"):
        pattern += "**"
    return "".join(_MEANING.get(token, re.escape(token)) for token in _TOKENS.findall(pattern))
