from __future__ import annotations

import os
from pathlib import Path

import pytest

from omni_ci.errors import GuardError
from omni_ci.runner.artifacts import collect, described, patterns_of


@pytest.fixture
def places(tmp_path):
    for name in ("checkout", "app"):
        (tmp_path / name).mkdir()
    return tmp_path / "checkout", tmp_path / "app"


def write(path: Path, text: str, *, age: float = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if age:
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))


def test_what_was_written_elsewhere_is_copied_to_the_same_place_in_the_checkout(places):
    checkout, app = places
    write(app / "lora-server.log", "served")
    write(app / "out/a/coverage-1.xml.gz", "xml")
    write(app / "out/other.txt", "no")
    done = collect(
        ("lora-server.log", "out/**/*.xml.gz"), checkout=checkout, folders=[str(checkout), str(app)]
    )
    assert (checkout / "lora-server.log").read_text() == "served"
    assert (checkout / "out/a/coverage-1.xml.gz").read_text() == "xml"
    assert not (checkout / "out/other.txt").exists()
    assert (done.notes, done.problems) == ([], [])
    assert len(list(described(done))) == 2


def test_agent619_a_pattern_that_matches_nothing_is_said(places):
    """An upload that matches nothing succeeds: the report was missing and nobody knew."""
    checkout, app = places
    write(checkout / "there.log", "x")
    done = collect(("there.log", "gone-*.log"), checkout=checkout, folders=[str(app)])
    where = f"in {checkout} nor in {app}"
    said = f"artifact_paths: 'gone-*.log' matches no file {where}, so that nothing will be uploaded for it"
    assert done.notes == [said]


def test_a_log_written_after_a_cd_is_found(places):
    checkout, app = places
    write(app / "lora-server.log", "served")
    collect(("lora-server.log",), checkout=checkout, folders=[str(checkout), str(app)])
    assert (checkout / "lora-server.log").exists()


def test_a_newer_file_of_the_checkout_is_not_overwritten_and_an_older_one_is(places):
    checkout, app = places
    write(app / "a.log", "old", age=100)
    write(checkout / "a.log", "new")
    write(app / "b.log", "new")
    write(checkout / "b.log", "stale", age=100)
    done = collect(("*.log",), checkout=checkout, folders=[str(app)])
    assert ((checkout / "a.log").read_text(), (checkout / "b.log").read_text()) == ("new", "new")
    assert len(done.notes) == 1
    assert "a.log is newer" in done.notes[0]


def test_agent1099_a_copy_that_fails_is_a_problem_and_no_exception(places):
    """A failed upload replaced the tests' exit code: here it is only ever reported beside it."""
    checkout, app = places
    write(app / "a.log/inner.txt", "x")
    write(checkout / "a.log", "a file where a folder should be")
    done = collect(("a.log/*.txt",), checkout=checkout, folders=[str(app)])
    assert len(done.problems) == 1
    assert "could not be copied" in done.problems[0]


@pytest.mark.parametrize("pattern", ["../secret.txt", "a/../../x"])
def test_nothing_is_written_outside_the_checkout(places, pattern):
    checkout, app = places
    write(app.parent / "secret.txt", "x")
    done = collect((pattern,), checkout=checkout, folders=[str(app)])
    assert done.copied == []
    assert "leads out of the checkout" in done.notes[0]


def test_an_absolute_pattern_is_the_agents_own_and_only_missed(places):
    checkout, app = places
    write(app / "a.log", "x")
    assert collect((f"{app}/*.log",), checkout=checkout, folders=[]).notes == []
    assert "matches no file" in collect((f"{app}/*.xml",), checkout=checkout, folders=[]).notes[0]


def test_a_folder_that_is_gone_holds_nothing(places):
    checkout, app = places
    write(checkout / "a.log", "x")
    assert collect(("a.log",), checkout=checkout, folders=[str(app / "gone")]).notes == []


def test_patterns_are_a_json_array_and_a_text_may_hold_several():
    assert patterns_of({"OMNI_ARTIFACT_PATHS": '["a.log; b/**/*", "c"]'}) == ("a.log", "b/**/*", "c")
    assert patterns_of({}) == ()
    with pytest.raises(GuardError, match="OMNI_ARTIFACT_PATHS is not JSON"):
        patterns_of({"OMNI_ARTIFACT_PATHS": "a.log"})
