"""Every collected test is in exactly one lane."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lanes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("lanes")


# Written at the end of one collection: six of them, three with torch, would take half a minute.
LEDGER = """
import json, os, pathlib, pytest
from pytest_omni.selection.items import requirement_of

def marks_of(item):
    requirement = requirement_of(item)  # a platform's mark is put on where that platform is asked for
    return [*(mark.name for mark in item.iter_markers()), *(requirement.platforms if requirement else ())]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    rows = [[item.nodeid, marks_of(item)] for item in items]  # before this machine's platform counts
    pathlib.Path(os.environ["LEDGER"]).write_text(json.dumps(rows))
    return (yield)
"""


@pytest.fixture
def collected(tmp_path):
    """Every test of the repository with its marks, as one real collection finds them."""
    (tmp_path / "lane_ledger.py").write_text(LEDGER)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "lane_ledger",
            "tests",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "LEDGER": str(tmp_path / "ledger.json")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((tmp_path / "ledger.json").read_text())


def in_lane(lane, name, marks):
    below = [
        any(name.startswith((f"{path}/", f"{path}::")) for path in paths)
        for paths in (lane.paths, lane.without)
    ]
    return below == [True, False] and Expression.compile(lane.marks).evaluate(lambda mark, **_: mark in marks)


def test_every_test_is_in_exactly_one_lane(lanes, collected):
    assert len(collected) > 100
    homes = {
        name: [lane.name for lane in lanes.TEST_LANES if in_lane(lane, name, marks)]
        for name, marks in collected
    }
    assert {name: found for name, found in homes.items() if len(found) != 1} == {}
    # and no lane is empty: pytest would call that an error
    assert {found[0] for found in homes.values()} == {lane.name for lane in lanes.TEST_LANES}
    # our reading of a lane is pytest's own
    lane = next(lane for lane in lanes.TEST_LANES if lane.name == "pytester")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *lane.arguments(),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    names = [line for line in done.stdout.splitlines() if "::" in line]
    assert sorted(names) == sorted(name for name, marks in collected if in_lane(lane, name, marks))


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["static", "unit", "pytester", "process", "torch", "server", "e2e"]),
        (["--fast"], ["static", "unit", "pytester", "process"]),
        (["torch", "unit"], ["torch", "unit"]),
        (["--gpu"], ["gpu"]),
        (["--compat"], ["compat"]),
        (["--soak"], ["soak"]),
        (["--browser"], ["browser"]),
    ],
)
def test_the_lanes_that_run(lanes, arguments, names):
    assert lanes.chosen(lanes.parse(arguments)) == names


@pytest.mark.parametrize(
    "arguments", [["--fast", "unit"], ["--fast", "--gpu"], ["--compat", "--fast"], ["--fast", "--soak"]]
)
def test_fast_beside_a_lane_is_refused_instead_of_ignored(lanes, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        lanes.parse(arguments)
    assert caught.value.code == 2
    assert "--fast chooses the lanes itself" in capsys.readouterr().err


@pytest.fixture
def fake_torch(tmp_path, monkeypatch):
    """A torch that answers as told, for the child that is asked."""

    def make(*, available: bool, hip: str | None) -> None:
        (tmp_path / "torch.py").write_text(
            "class cuda:\n"
            f"    is_available = staticmethod(lambda: {available})\n"
            "class version:\n"
            f"    hip = {hip!r}\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return make


@pytest.mark.parametrize(("hip", "platform"), [(None, "cuda"), ("6.4", "rocm")])
def test_the_gpu_lane_runs_the_tests_of_the_cards_that_are_here(
    lanes, fake_torch, monkeypatch, hip, platform
):
    fake_torch(available=True, hip=hip)
    monkeypatch.setattr(lanes, "run", lambda command: commands.append(command) or 0)
    commands: list[list[str]] = []
    assert lanes.run_lane("gpu") == 0
    assert commands[0][-2:] == ["-m", platform]


def test_the_gpu_lane_without_a_card_runs_nothing_and_says_so(lanes, fake_torch, monkeypatch, capsys):
    fake_torch(available=False, hip=None)
    monkeypatch.setattr(lanes, "run", pytest.fail)
    assert lanes.run_lane("gpu") == 4
    assert (
        "torch finds no card for 'cuda or rocm' on this machine, so no test was run"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("arguments", [["unti"], ["--fsat"]])
def test_an_unknown_lane_is_refused(lanes, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        lanes.parse(arguments)
    assert caught.value.code == 2
    assert "unti" in capsys.readouterr().err or "--fsat" in arguments


@pytest.mark.parametrize(
    ("keep_going", "ran"), [(False, ["static", "unit"]), (True, ["static", "unit", "pytester"])]
)
def test_the_first_red_lane_ends_the_run_unless_told_otherwise(lanes, monkeypatch, capsys, keep_going, ran):
    seen: list[str] = []
    monkeypatch.setattr(lanes, "run_lane", lambda name: seen.append(name) or (7 if name == "unit" else 0))
    code = lanes.main(["static", "unit", "pytester", *(["--keep-going"] if keep_going else [])])
    assert (code, seen) == (7, ran)
    assert "RED, exit 7" in capsys.readouterr().out
