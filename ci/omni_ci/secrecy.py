"""Which variables are secrets, and which texts look like the value of one.

A name is a secret's when it ends like one of SECRET_NAMES (`*` is any text; case does not matter) and is none of
NOT_SECRET; so is every variable that policy's `pods.secrets` names. An uploaded pipeline is read by everybody who may
see the build: a secret reaches a job as a Kubernetes secret or through the agent, never as text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import lru_cache

SECRET_NAMES = (
    "TOKEN",
    "*_TOKEN",
    "*SECRET",
    "*SECRETS",
    "*PASSWORD",
    "*PASSWD",
    "*PASSPHRASE",
    "*_KEY",
    "*APIKEY",
    "*CREDENTIAL",
    "*CREDENTIALS",
)
NOT_SECRET = ("BUILDKITE_*_KEY", "*CACHE_KEY", "*PUBLIC_KEY", "*SORT_KEY", "*PRIMARY_KEY")
# What the issuers of tokens print in front of them, so that a leaked one is found.
SECRET_VALUES = {
    "Hugging Face token": r"hf_[A-Za-z0-9]{30,}",
    "GitHub token": r"(?:gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "GitLab token": r"glpat-[A-Za-z0-9_-]{20,}",
    "AWS access key": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "Buildkite token": r"bk(?:ua|ct|pt|aj)_[a-f0-9]{32,}",
    "Slack token": r"xox[abops]-[A-Za-z0-9-]{10,}",
    "OpenAI key": r"sk-(?:proj-)?[A-Za-z0-9_-]{32,}",
    "npm token": r"npm_[A-Za-z0-9]{36,}",
    "password in a URL": r"(?<=://)[^\s:/@$]+:[^\s/@$]+(?=@[^\s@])",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
# What projects write where a program insists on a secret and nothing checks it: these words and nothing else.
_PLACEHOLDER = re.compile(
    r"(?:(?:sk|my|your|some|a|an|the|dummy|empty|none|null|no|not|fake|test|testing|token|secret|password|passwd|key|api|"
    r"changeme|placeholder|example|true|false|x+|\*+|\.+)(?:[-_ .]|$))+",
    re.IGNORECASE,
)
# An absolute path of two names or more, or one below a home or the folder a job is in.
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[\w.-]+){2,}/?|(?:~|\.{1,2})/[\w./-]+|<[^<>]*>", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,6}")
_VALUES = re.compile("|".join(f"({pattern})" for pattern in SECRET_VALUES.values()))


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether the variable *name* holds a secret, by its name."""
    upper = name.upper()
    return any(fnmatchcase(upper, one) for one in SECRET_NAMES) and not any(
        fnmatchcase(upper, one) for one in NOT_SECRET
    )


def is_value(text: str) -> bool:
    """Return whether *text*, given to a secret variable, may be its value: no variable, path, number or stand-in."""
    bare = text.strip()
    if not bare or "$" in bare:
        return False
    return not any(form.fullmatch(bare) for form in (_PLACEHOLDER, _PATH, _NUMBER))


def secret_in(text: str) -> tuple[str, str] | None:
    """Return what kind of secret *text* holds, by its form, and the secret itself; None where it holds none."""
    found = _VALUES.search(text)
    if found is None or found.lastindex is None:
        return None
    return list(SECRET_VALUES)[found.lastindex - 1], found[0]


def redacted(text: str, values: Collection[str]) -> str:
    """Return *text* without the secrets *values*, nor anything that has the form of one."""
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "…")
    return _VALUES.sub("…", text)
