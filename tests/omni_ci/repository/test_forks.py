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
        "https://me:p@ss@github.com/acme/engine.git",
        "git@github.com:/acme/engine.git",
        "https://github.com//acme/engine",
        OURS,
    ],
)
def test_one_repository_however_its_address_is_written(theirs: str) -> None:
    assert fork_of(build(theirs)) is None


@pytest.mark.parametrize(
    "theirs",
    [
        "https://github.com/someone/engine.git",
        "git@gitlab.com:acme/engine.git",
        "git@evil.example:x@github.com/acme/engine",
    ],
)
def test_another_repository_is_a_fork(theirs: str) -> None:
    assert fork_of(build(theirs)) == f"the fork {theirs.removeprefix('git@')}"
    assert fork_of(build(theirs, number="false")) is None
    assert fork_of({}) is None


@pytest.mark.parametrize("user", ["me:secret@", "me:sec@ret@", "token@", ""])
def test_a_password_in_the_address_is_not_shown(user: str) -> None:
    assert (
        fork_of(build(f"https://{user}github.com/someone/engine"))
        == "the fork https://github.com/someone/engine"
    )


def test_a_path_with_a_colon_is_no_port() -> None:
    assert repository_name("git@github.com:acme/engine.git") == "github.com/acme/engine"
    assert repository_name("https://host:8443/a/b.git") == "host/a/b"


@pytest.mark.parametrize(
    "theirs", ["https://me:secret@github.com/someone/engine", "https://github.com/acme/engine"]
)
def test_a_build_that_does_not_name_its_own_repository_takes_every_other_for_a_fork(theirs: str) -> None:
    shown = theirs.replace("me:secret@", "")
    said = f"{shown}, which counts as a fork, since BUILDKITE_REPO does not say which repository is ours"
    environ = build(theirs)
    assert fork_of({**environ, "BUILDKITE_REPO": ""}) == said
    del environ["BUILDKITE_REPO"]
    assert fork_of(environ) == said


def test_a_build_that_does_not_say_where_its_pull_request_comes_from_counts_as_a_forks() -> None:
    said = "what counts as a fork, since BUILDKITE_PULL_REQUEST_REPO does not say which repository it is"
    assert fork_of(build("")) == said
    assert fork_of(build(" ")) == said
    assert fork_of({"BUILDKITE_PULL_REQUEST": "7"}) == said


@pytest.mark.parametrize("number", ["", "false", " "])
def test_what_is_no_pull_request_comes_from_no_fork(number: str) -> None:
    assert fork_of({"BUILDKITE_PULL_REQUEST": number}) is None
    assert fork_of(build("https://github.com/someone/engine", number=number)) is None
