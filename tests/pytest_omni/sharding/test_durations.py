"""durations.json: every problem at once, newest wins, written whole; and what a run measures."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_hardware.errors import InfrastructureError, InputError
from pytest_omni.sharding import merging
from pytest_omni.sharding.durations import Durations, load, parse, part_path, save, update

EXAMPLE = {
    "schema": 1,
    "tests": {"tests/a.py::t": {"call_s": 20.1}},
    "fixtures": {"omni_server@tests/a.py[z_image]": {"setup_s": 240}},
    "steps": {"cuda/test-merge.yml#bagel": {"minutes": 31}},
}
TABLES = st.dictionaries(
    st.text(min_size=1), st.floats(0, 1e6).map(lambda value: round(value, 4)), max_size=5
)


def test_the_format_is_read_and_written_as_it_is_specified() -> None:
    found = parse(EXAMPLE, source="durations.json")

    assert found.tests == {"tests/a.py::t": 20.1}
    assert found.fixtures == {"omni_server@tests/a.py[z_image]": 240.0}
    assert found.to_json() == EXAMPLE


@given(st.builds(Durations, TABLES, TABLES, TABLES))
def test_what_is_written_is_what_is_read(durations: Durations) -> None:
    assert parse(json.loads(json.dumps(durations.to_json())), source="x") == durations


def test_every_problem_is_told_at_once() -> None:
    document = {
        "schema": 2,
        "test": {},
        "tests": {
            "a.py::t": {"cal_s": 1},
            "b.py::t": 3.5,
            "c.py::t": {"call_s": -1},
            "d.py::t": {"call_s": 1e308},
        },
        "fixtures": {"f@a.py": {"setup_s": True}, "g@a.py": {"setup_s": float("nan")}},
        "steps": [],
    }

    with pytest.raises(InputError) as caught:
        parse(document, source="d.json")

    assert str(caught.value).splitlines() == [
        "d.json: test: unknown key (did you mean 'tests'?)",
        "d.json: schema: must be 1, not 2",
        "d.json: tests['a.py::t'].cal_s: unknown key (did you mean 'call_s'?)",
        "d.json: tests['a.py::t'].call_s: must be a number from 0 to 1e+09, not None",
        "d.json: tests['b.py::t']: must be an object like {\"call_s\": 1.5}, not 3.5",
        "d.json: tests['c.py::t'].call_s: must be a number from 0 to 1e+09, not -1",
        "d.json: tests['d.py::t'].call_s: must be a number from 0 to 1e+09, not 1e+308",
        "d.json: fixtures['f@a.py'].setup_s: must be a number from 0 to 1e+09, not True",
        "d.json: fixtures['g@a.py'].setup_s: must be a number from 0 to 1e+09, not nan",
        "d.json: steps: must be an object, not []",
    ]


def test_keys_that_a_merge_left_twice_are_named_and_none_of_them_wins(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(
        '{"schema": 1, "tests": {"a.py::t": {"call_s": 1}, "b.py::t": {"call_s": 2}, "a.py::t": {"call_s": 9}},\n'
        ' "fixtures": {"f@a.py": {"setup_s": 1, "setup_s": 2}}, "fixtures": {}}'
    )

    with pytest.raises(InputError) as caught:
        load(path)

    told = "stands twice in one object, and only one of the two can count: keep one"
    assert str(caught.value).splitlines() == [
        f"{path}: the key {key!r} {told}" for key in ("a.py::t", "setup_s", "fixtures")
    ]
    with pytest.raises(InputError, match="stands twice"):
        update(path, Durations(tests={"a.py::t": 3.0}))
    assert path.read_text().count("a.py::t") == 2, "a file that cannot be read is left as it is"


def test_sessions_that_end_together_lose_nothing_and_leave_no_file(tmp_path: Path) -> None:
    path, everybody = tmp_path / "d.json", threading.Barrier(4)

    def session(number: int) -> None:
        everybody.wait()
        for turn in range(5):
            update(path, Durations(tests={f"t{number}-{turn}": 1.0}))

    threads = [threading.Thread(target=session, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(load(path).tests) == 20
    assert [file.name for file in tmp_path.iterdir()] == ["d.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"schema": 1,\n oops}', "d.json:2:2: not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1]", r"must be an object .* not \[1\]"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_file_that_is_no_durations_json_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(text)

    with pytest.raises(InputError, match=message):
        load(path)


def test_a_file_that_is_not_there_yet_knows_nothing_and_a_folder_cannot_be_read(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json") == Durations()
    with pytest.raises(InfrastructureError, match="cannot be read"):
        load(tmp_path)


def test_the_newer_measurement_wins_and_nothing_else_is_lost(tmp_path: Path) -> None:
    older = Durations({"a": 1.0, "b": 2.0}, {"f@a": 3.0}, {"step": 4.0})

    save(tmp_path / "new" / "d.json", older.updated(Durations({"b": 9.0}, {"g@a": 5.0})))

    assert load(tmp_path / "new" / "d.json") == Durations(
        {"a": 1.0, "b": 9.0}, {"f@a": 3.0, "g@a": 5.0}, {"step": 4.0}
    )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["d.json"]


def test_a_place_that_cannot_be_written_is_named_and_left_clean(tmp_path: Path) -> None:
    (tmp_path / "d.json").mkdir()

    with pytest.raises(InfrastructureError, match=r"d\.json: cannot be written"):
        save(tmp_path / "d.json", Durations({"a": 1.0}))

    assert [path.name for path in tmp_path.iterdir()] == ["d.json"]


def test_each_shard_writes_a_file_of_its_own() -> None:
    path = Path("ci/durations.json")

    assert part_path(path, 0, 1) == path
    assert part_path(path, 2, 4) == Path("ci/durations.2-of-4.json")


def test_the_files_of_the_shards_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, parts = tmp_path / "d.json", [tmp_path / f"d.{shard}-of-2.json" for shard in range(2)]
    save(whole, Durations({"old": 1.0, "both": 1.0}, {}, {"step": 3.0}))
    save(parts[0], Durations({"both": 2.0}, {"f@a": 1.0}))
    save(parts[1], Durations({"new": 4.0}))

    assert merging.main([str(whole), *map(str, parts)]) == 0

    assert load(whole) == Durations({"old": 1.0, "both": 2.0, "new": 4.0}, {"f@a": 1.0}, {"step": 3.0})
    assert "3 tests, 1 fixtures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["d.json"], "usage:"),
        (["d.json", "missing.json"], "missing.json: no such file"),
        (["--help", "x"], "usage:"),
    ],
)
def test_merging_says_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert merging.main(arguments) == 2

    assert message in capsys.readouterr().err


def test_a_device_is_never_replaced_and_a_link_stays_one(tmp_path):
    pipe, link, real = tmp_path / "pipe", tmp_path / "link.json", tmp_path / "real.json"
    os.mkfifo(pipe)
    with pytest.raises(InfrastructureError, match="no regular file"):
        save(pipe, Durations({"a": 1.0}))
    assert pipe.is_fifo()
    real.write_text('{"schema": 1}')
    link.symlink_to(real)
    save(link, Durations({"a": 1.0}))
    assert link.is_symlink()
    assert load(real).tests == {"a": 1.0}
