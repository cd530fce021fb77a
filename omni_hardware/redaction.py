"""Text with its secrets blotted out, for logs and error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

BLOT = "[redacted]"

# Lengths are bounded: a log may hold a line of 100,000 dashes, and these patterns see every one of them.
_NAME = (
    r"[\w.-]{0,60}(?:TOKEN|SECRET|PASSWORD|PASSWD|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY|CREDENTIAL)S?"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w.-]){_NAME}[\"']?\s*[=:]\s*[\"']?)(?P<value>[^\s\"',;&]+)", re.IGNORECASE
)
# "--api-key VALUE", and the two as neighbours in a printed list: '--api-key', 'VALUE'
_FLAG = re.compile(
    rf"(?P<name>--{_NAME}(?:[\"'],)?\s+(?P<quote>[\"'])?)(?!--)(?P<value>(?(quote)[^\"'\n]{{1,500}}|[^\s\"']+))",
    re.IGNORECASE,
)
_AUTHORIZATION = re.compile(r"(?P<name>\b(?:Bearer|Basic)\s+)(?P<value>[\w.~+/=-]{8,})", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?P<name>\b\w{1,20}://)(?P<value>[^\s/@]+:[^\s/@]+)(?=@)")
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{6,}|gh[oprsu]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}|sk-[\w-]{12,}"
    r"|bk(?:ua|at|ct)_\w{8,}|xox[abprs]-[\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{10,}\.[\w.-]{10,})"
)
_COUNTED = re.compile(r"tokens[\"']?\s*[=:\s]\s*[\"']?\Z", re.IGNORECASE)
_SHORTEST_SECRET = 6  # blotting "1" or "true" wherever it stands would make a log unreadable


def redact(text: str, *, secrets: Iterable[str] = ()) -> str:
    """Return *text* with tokens, passwords and the given *secrets* replaced by "[redacted]".

    >>> redact("HF_TOKEN=hf_abcdefghij go")
    'HF_TOKEN=[redacted] go'
    """
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, BLOT)
    for pattern in (_URL_LOGIN, _AUTHORIZATION, _ASSIGNED, _FLAG):
        text = pattern.sub(_blotted, text)
    return _SHAPES.sub(BLOT, text)


def redact_words(words: Iterable[str], *, secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the words of a command line, each redacted; a word that a secret flag takes is blotted whole.

    >>> redact_words(["serve", "--api-key", "two words"])
    ('serve', '--api-key', '[redacted]')
    """
    known, shown, flag = tuple(secrets), list[str](), ""
    for word in words:
        name, equals, value = word.partition("=")
        if flag and not word.startswith("--") and _is_secret(flag, word):
            shown.append(BLOT)
        elif equals and _is_secret(name.lstrip("-"), value):
            shown.append(f"{name}={BLOT}")
        else:
            shown.append(redact(word, secrets=known))
        flag = word.lstrip("-") if word.startswith("-") else ""
    return tuple(shown)


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of *environ* whose names say that they are secret."""
    return tuple(value for key, value in environ.items() if _SECRET_NAME.fullmatch(key))


def _is_secret(name: str, value: str) -> bool:
    counts = value.isdigit() and name.lower().endswith("tokens")  # max_tokens=128 counts tokens
    return bool(_SECRET_NAME.fullmatch(name)) and not counts


def _blotted(hit: re.Match[str]) -> str:
    # max_tokens=128 counts tokens
    if hit["value"].rstrip(".)]}").isdigit() and _COUNTED.search(hit["name"]):
        return hit[0]
    return f"{hit['name']}{BLOT}"
