"""Whether a pull request comes from another repository, whose configuration must not decide what ours runs on."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PROTOCOL = re.compile(r"^[a-z+]+://", re.IGNORECASE)
# `https://me:p@ss@host/…`: a URL's host begins after the last @ before its path; git's own `user@host:path` has one.
_CREDENTIALS = re.compile(r"^[^/]*@")
_USER = re.compile(r"^[^/@:]*@")
_THEIRS, _OURS = "BUILDKITE_PULL_REQUEST_REPO", "BUILDKITE_REPO"
_PORT = re.compile(r":\d+(?=/)")


def fork_of(environ: Mapping[str, str]) -> str | None:
    """Return what the pull request comes from where that is not known to be the build's own repository, else None.

    A build that does not say it counts like one of a fork: "not said" must not choose queues, images and secrets.

    >>> fork_of({"BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_REPO": "git@host:a/b"})
    'what counts as a fork, since BUILDKITE_PULL_REQUEST_REPO does not say which repository it is'
    """
    if not is_pull_request(environ):
        return None
    theirs, ours = (environ.get(name, "").strip() for name in (_THEIRS, _OURS))
    if not theirs:
        return f"what counts as a fork, since {_THEIRS} does not say which repository it is"
    if not ours:
        return (
            f"{_shown(theirs)}, which counts as a fork, since {_OURS} does not say which repository is ours"
        )
    return None if repository_name(theirs) == repository_name(ours) else f"the fork {_shown(theirs)}"


def is_pull_request(environ: Mapping[str, str]) -> bool:
    """Return whether *environ* describes the build of a pull request: Buildkite gives its number, else "false"."""
    return environ.get("BUILDKITE_PULL_REQUEST", "").strip() not in ("", "false")


def repository_name(url: str) -> str:
    """Return *url* as `host/path`, however it is written: `git@host:a/b.git`, `https://host/a/b`, `ssh://…`."""
    start, bare = _split(url.strip())
    bare = _PORT.sub("", bare) if start else bare.replace(":", "/", 1)
    return re.sub("/+", "/", bare).rstrip("/").removesuffix(".git").casefold()


def _shown(url: str) -> str:
    """Return *url* without a user name and password in it."""
    return "".join(_split(url))


def _split(url: str) -> tuple[str, str]:
    """Return the protocol, "" for git's own short form, and what follows the user."""
    protocol = _PROTOCOL.match(url)
    start = protocol[0] if protocol else ""
    return start, (_CREDENTIALS if start else _USER).sub("", url[len(start) :])
