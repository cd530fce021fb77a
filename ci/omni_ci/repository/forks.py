"""Whether a pull request comes from another repository, whose configuration must not decide what ours runs on."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PROTOCOL = re.compile(r"^[a-z+]+://", re.IGNORECASE)
_CREDENTIALS = re.compile(r"^[^/@]*@")
_PORT = re.compile(r":\d+(?=/)")


def fork_of(environ: Mapping[str, str]) -> str | None:
    """Return the repository the pull request comes from where it is not known to be the build's own, else None."""
    if environ.get("BUILDKITE_PULL_REQUEST", "false") in ("", "false"):
        return None
    theirs, ours = environ.get("BUILDKITE_PULL_REQUEST_REPO", ""), environ.get("BUILDKITE_REPO", "")
    if not theirs:
        return None
    # where the build does not say which repository is ours, the other one is judged like a stranger's
    if ours and repository_name(theirs) == repository_name(ours):
        return None
    return _shown(theirs)


def repository_name(url: str) -> str:
    """Return *url* as `host/path`, however it is written: `git@host:a/b.git`, `https://host/a/b`, `ssh://…`."""
    bare = _CREDENTIALS.sub("", _PROTOCOL.sub("", url.strip()))
    bare = _PORT.sub("", bare) if _PROTOCOL.match(url.strip()) else bare.replace(":", "/", 1)
    return bare.rstrip("/").removesuffix(".git").casefold()


def _shown(url: str) -> str:
    """Return *url* without a user name and password in it."""
    protocol = _PROTOCOL.match(url)
    start = protocol[0] if protocol else ""
    return start + _CREDENTIALS.sub("", url[len(start) :])
