from __future__ import annotations

import pytest

from omni_ci.repository.forks import fork_of, repository_name

OURS = "git@github.com:acme/engine.git"


def build(theirs: str, *, number: str = "7", ours: str = OURS) -> dict[str, str]:
    return {"BUILDKITE_PULL_REQUEST": number, "BUILDKITE_PULL_REQUEST_REPO": theirs, "BUILDKITE_REPO": ours}


@pytest.mark.parametrize(
    "theirs",
    [
        "git://github.com/acme/engine.git",
        "https://github.com/Acme/engine",
        "https://token@github.com/acme/engine.git/",
        "ssh://git@github.com:22/acme/engine.git",
        OURS,
        "",
    ],
)
def test_one_repository_however_its_address_is_written(theirs: str) -> None:
    assert fork_of(build(theirs)) is None


@pytest.mark.parametrize(
    "theirs", ["https://github.com/someone/engine.git", "git@gitlab.com:acme/engine.git"]
)
def test_another_repository_is_a_fork(theirs: str) -> None:
    assert fork_of(build(theirs)) == theirs.removeprefix("git@")
    assert fork_of(build(theirs, number="false")) is None
    assert fork_of({}) is None


def test_a_password_in_the_address_is_not_shown() -> None:
    assert (
        fork_of(build("https://me:secret@github.com/someone/engine")) == "https://github.com/someone/engine"
    )


def test_a_path_with_a_colon_is_no_port() -> None:
    assert repository_name("git@github.com:acme/engine.git") == "github.com/acme/engine"
    assert repository_name("https://host:8443/a/b.git") == "host/a/b"


def test_a_build_that_does_not_name_its_own_repository_takes_every_other_for_a_fork() -> None:
    environ = build("https://github.com/someone/engine")
    assert fork_of({**environ, "BUILDKITE_REPO": ""}) == "https://github.com/someone/engine"
    del environ["BUILDKITE_REPO"]
    assert fork_of(environ) == "https://github.com/someone/engine"
