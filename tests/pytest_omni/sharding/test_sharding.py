"""Shards of real pytest runs: who runs what, what is said about it, and how an empty shard ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

OURS = ("pytest_omni.plugin", "pytest_shard.pytest_shard")
WITH_XDIST = (*OURS, "xdist")

SERVERS = """
import pytest
from pytest_omni import OmniServerParams

@pytest.mark.parametrize("omni_server", [
    pytest.param(OmniServerParams("z", server_args=("--pids", "starts")), id="z_image"),
    pytest.param(OmniServerParams("w", server_args=("--pids", "starts")), id="wan"),
], indirect=True)
@pytest.mark.parametrize("x", [1, 2])
def test_served(omni_server, x): pass
"""


def ran(result: pytest.RunResult) -> list[str]:
    """Return the node ids that passed, from a verbose run, in the order of running."""
    found = [
        re.search(r"(?:PASSED )?(\S+::\S+)(?: PASSED)?", line) for line in result.outlines if "PASSED" in line
    ]
    return [match[1] for match in found if match]


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().split()) if (folder / "starts").exists() else 0


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text())


def shard(number: int, of: int) -> tuple[str, ...]:
    return ("--num-shards", str(of), "--shard-id", str(number))


@pytest.fixture
def plain(armed: pytest.Pytester) -> pytest.Pytester:
    """Eight tests in two files; those that run say so in a file."""
    body = "import pathlib\n" + "\n".join(
        f"def test_{name}(): pathlib.Path('ran').open('a').write('{name} ')" for name in "dcba"
    )
    armed.makepyfile(test_one=body, test_two=body)
    return armed


def test_the_shards_run_every_test_once_in_collection_order(plain: pytest.Pytester, inner) -> None:
    collected = [f"test_{file}.py::test_{name}" for file in ("one", "two") for name in "dcba"]
    lines, reports = [], []
    seen: list[str] = []
    for number in range(3):
        result = inner(*shard(number, 3), "-v", "--omni-report", "report.json", plugins=OURS)
        assert result.ret == 0
        here = ran(result)
        assert here == [nodeid for nodeid in collected if nodeid in here]
        seen += here
        lines += [line for line in result.outlines if line.startswith(f"omni: shard {number} of 3")]
        reports.append(report(plain.path))
        result.assert_outcomes(passed=len(here), deselected=8 - len(here))

    assert sorted(seen) == sorted(collected)
    assert len({line.rpartition("plan ")[2] for line in lines}) == 1
    assert lines[0].startswith(
        "omni: shard 0 of 3 (0 to 2) by group: 3 of 8 tests, 3 units of 8 units; plan "
    )
    assert len({found["shard"]["digest"] for found in reports}) == 1
    assert reports[2]["shard"] | {"digest": ""} == {"id": 2, "of": 3, "by": "group", "digest": ""}
    assert reports[2]["counts"]["other_shard"] == 6
    elsewhere = next(item for item in reports[2]["items"] if item["state"] == "other_shard")
    assert (elsewhere["kind"], elsewhere["because"]) == ("shard", "runs in shard 0 of 3")


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_vllm32040_a_shard_without_tests_passes_and_an_empty_selection_does_not(
    plain: pytest.Pytester, inner, workers: tuple[str, ...]
) -> None:
    empty = inner(*shard(8, 9), *workers, "--omni-strict", plugins=WITH_XDIST)
    nothing = inner(*shard(0, 9), *workers, "-k", "nothing", plugins=WITH_XDIST)

    assert empty.ret == 0
    empty.stdout.fnmatch_lines(["omni: shard 8 of 9 (0 to 8) by group: 0 of 8 tests*"])
    empty.stdout.fnmatch_lines(["this shard is empty: 8 tests selected, all in other shards"])
    assert nothing.ret == 5
    assert not (plain.path / "ran").exists()


def test_autoharness152_a_broken_file_fails_an_empty_shard_too(plain: pytest.Pytester, inner) -> None:
    plain.makepyfile(test_broken="import nowhere")

    alone = inner(*shard(8, 9), plugins=WITH_XDIST)
    workers = inner(*shard(8, 9), "-n2", plugins=WITH_XDIST)
    anyway = inner(*shard(8, 9), "--continue-on-collection-errors", plugins=WITH_XDIST)

    assert (alone.ret, anyway.ret) == (2, 1)
    assert workers.ret not in (0, 5)
    alone.stdout.fnmatch_lines(["*No module named 'nowhere'*"])


def test_nemo_rl3422_a_module_fixture_is_built_once_and_not_in_every_shard(
    armed: pytest.Pytester, inner
) -> None:
    armed.makepyfile(
        """
        import pathlib, pytest

        @pytest.fixture(scope="module")
        def engine(request):
            pathlib.Path("starts").open("a").write("start ")

        @pytest.mark.parametrize("engine", ["fsdp", "megatron"], indirect=True)
        @pytest.mark.parametrize("x", [1, 2])
        def test_engine(engine, x): pass
        """
    )

    results = [inner(*shard(number, 3), "-v", plugins=OURS) for number in range(3)]

    assert [result.ret for result in results] == [0, 0, 0]
    assert sorted(len(ran(result)) for result in results) == [0, 2, 2]
    assert starts(armed.path) == 2


def test_a_server_of_ours_is_started_once(armed: pytest.Pytester, inner) -> None:
    armed.makepyfile(test_a=SERVERS)

    results = [inner(*shard(number, 2), "-v", plugins=OURS) for number in range(2)]

    assert [len(ran(result)) for result in results] == [2, 2]
    assert starts(armed.path) == 2


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_pytest_split61_set_up_is_not_billed_to_the_first_test(
    armed: pytest.Pytester, inner, workers: tuple[str, ...]
) -> None:
    armed.makepyfile(
        """
        import pytest, time, unittest

        @pytest.fixture(scope="session")
        def weights(): time.sleep(0.3)

        @pytest.fixture(scope="module")
        def engine(weights):
            time.sleep(0.4)
            yield
            time.sleep(0.3)

        @pytest.fixture
        def own():
            time.sleep(0.02)
            yield
            time.sleep(0.02)

        def test_first(engine, own): pass
        def test_asks_late(request): request.getfixturevalue("engine")
        def test_fails(engine): assert 0

        class TestParts(unittest.TestCase):
            def test_parts(self):
                with self.subTest("a"): pass
        """
    )

    result = inner("--shard-durations", "d.json", *workers, plugins=WITH_XDIST)

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["omni: durations of 3 tests and 2 shared fixtures written to *d.json"])
    found = json.loads((armed.path / "d.json").read_text())
    module = "test_pytest_split61_set_up_is_not_billed_to_the_first_test.py"
    engine, weights = (found["fixtures"][key]["setup_s"] for key in (f"engine@{module}", "weights@session"))
    assert engine >= 0.7
    assert 0.3 <= weights < 0.7
    calls = {nodeid.rpartition("::")[2]: row["call_s"] for nodeid, row in found["tests"].items()}
    assert set(calls) == {"test_first", "test_asks_late", "test_parts"}
    assert 0.04 <= calls["test_first"] < 0.3
    assert calls["test_asks_late"] < 0.3


def test_measured_times_make_the_plan_and_shards_write_beside_the_file(plain: pytest.Pytester, inner) -> None:
    seconds = {
        "test_one.py::test_d": 100,
        "test_one.py::test_a": 1,
        "test_one.py::test_b": 1,
        "test_two.py::test_a": 1,
    }
    known = {"schema": 1, "tests": {nodeid: {"call_s": value} for nodeid, value in seconds.items()}}
    (plain.path / "d.json").write_text(json.dumps(known))

    result = inner(*shard(0, 2), "-v", "--shard-durations", "d.json", plugins=OURS)

    # what nobody measured costs the median of its file, one second: all seven others are in the other shard
    assert ran(result) == ["test_one.py::test_d"]
    result.stdout.fnmatch_lines(
        ["omni: shard 0 of 2 (0 to 1) by group: 1 of 8 tests, 100 s of 107 s; plan *"]
    )
    assert json.loads((plain.path / "d.json").read_text()) == known
    assert set(json.loads((plain.path / "d.0-of-2.json").read_text())["tests"]) == set(ran(result))


def test_a_wrong_durations_file_is_a_usage_error_with_every_problem(plain: pytest.Pytester, inner) -> None:
    (plain.path / "d.json").write_text('{"schema": 2, "tets": {}}')

    for workers in ((), ("-n2",)):
        result = inner("--shard-durations", "d.json", *workers, plugins=WITH_XDIST)

        assert result.ret == 4
        result.stderr.fnmatch_lines(
            ["*tets: unknown key (did you mean 'tests'?)", "*schema: must be 1, not 2"]
        )


def test_kirocrew6351_tests_of_one_xdist_group_stay_in_one_shard(armed: pytest.Pytester, inner) -> None:
    pair = 'import pytest\n@pytest.mark.xdist_group("pair")\ndef test_pair(): pass\ndef test_other(): pass\n'
    armed.makepyfile(test_a=pair, test_b=pair, test_c="def test_c(): pass")

    here = [ran(inner(*shard(number, 2), "-v", plugins=WITH_XDIST)) for number in range(2)]

    assert sorted(sum("pair" in nodeid for nodeid in nodeids) for nodeids in here) == [0, 2]
    assert sum(map(len, here)) == 5


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_vllm21764_a_shard_that_does_not_exist_is_a_usage_error_that_names_the_range(
    plain: pytest.Pytester, inner, workers: tuple[str, ...]
) -> None:
    result = inner(*shard(4, 4), *workers, plugins=WITH_XDIST)

    assert result.ret == 4
    message = "ERROR: --shard-id 4 of --num-shards 4: shards are counted from 0, give 0 to 3"
    assert [line for line in result.errlines if line] == [message]


def test_buildkite_says_which_shard_this_is(
    plain: pytest.Pytester, inner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILDKITE_PARALLEL_JOB", "1")
    monkeypatch.setenv("BUILDKITE_PARALLEL_JOB_COUNT", "4")

    unasked, asked = inner(plugins=OURS), inner("--shard", "auto", plugins=("pytest_omni.plugin",))

    unasked.assert_outcomes(passed=8)
    asked.assert_outcomes(passed=2, deselected=6)
    asked.stdout.fnmatch_lines(["*shard 1 of 4 by group*", "omni: shard 1 of 4 *"])


def test_pytest_shard_chooses_where_nobody_armed_us_and_never_otherwise(
    plain: pytest.Pytester, inner
) -> None:
    theirs = "* items in this shard*"
    armed = [
        inner(*shard(0, 2), "--shard-by", "hash", *more, "-v", plugins=WITH_XDIST) for more in ((), ("-n2",))
    ]
    (plain.path / "pyproject.toml").unlink()
    unarmed = inner(*shard(0, 2), "-v", plugins=OURS)

    unarmed.stdout.fnmatch_lines([theirs])
    for result in armed:
        result.stdout.no_fnmatch_line(theirs)
        assert sorted(ran(result)) == sorted(ran(unarmed))


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_a_matrix_that_forgets_the_shard_is_refused(
    plain: pytest.Pytester, inner, monkeypatch, workers: tuple[str, ...]
) -> None:
    forgotten = inner("--num-shards", "4", *workers, plugins=WITH_XDIST)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--shard-id=0")
    named = inner("--num-shards", "4", *workers, plugins=WITH_XDIST)

    assert forgotten.ret == pytest.ExitCode.USAGE_ERROR
    assert "--num-shards 4: which of them? Give --shard-id 0 to 3, or" in str(forgotten.stderr)
    named.assert_outcomes(passed=2)


def test_what_has_no_shards_says_so(plain: pytest.Pytester, inner) -> None:
    method, alone = inner("--shard-by", "duration", plugins=OURS), inner("--shard-plan", plugins=OURS)

    method.assert_outcomes(passed=8)
    method.stdout.fnmatch_lines(["omni: --shard-by duration divides nothing without --num-shards or *"])
    alone.stdout.fnmatch_lines(["omni: shard plan: 8 tests on 1 shard (--num-shards makes more), divided *"])


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_a_plan_is_printed_and_nothing_runs(plain: pytest.Pytester, inner, workers: tuple[str, ...]) -> None:
    plain.makepyfile(test_a=SERVERS)

    result = inner("--num-shards", "3", "--shard-plan", *workers, plugins=WITH_XDIST)
    nothing = inner("--num-shards", "3", "--shard-plan", "-k", "nothing", plugins=WITH_XDIST)

    assert (result.ret, nothing.ret) == (0, 5)
    result.stdout.fnmatch_lines(
        [
            "omni: shard plan: 12 tests on 3 shards (0 to 2), divided by what they share, the longest group first; *",
            "omni: 36 units in all; an even share is 12 units",
            "omni: shard 0: 2 tests, 14 units, 1.17 of an even share",
            "omni:   2 tests, 2 units + 12 units of set-up: omni_server@test_a.py[[]wan]",
            "omni: shard 1: 2 tests, 14 units, 1.17 of an even share",
            "omni:   2 tests, 2 units + 12 units of set-up: omni_server@test_a.py[[]z_image]",
            "omni: shard 2: 8 tests, 8 units, 0.67 of an even share",
            "omni:   8 tests, 8 units: by themselves",
            "omni: nothing was measured yet: a test counts 1, a set-up 12; *",
            "*12 tests collected*",
        ],
        consecutive=False,
    )
    assert result.stdout.str().count("shard plan:") == 1
    assert not (plain.path / "ran").exists()
    assert starts(plain.path) == 0


def test_pytest_xdist1386_a_group_stays_on_one_worker_and_node_ids_stay_as_they_are(
    armed: pytest.Pytester, inner
) -> None:
    own = """
        import os, pathlib, pytest, time

        @pytest.mark.xdist_group("mine")
        @pytest.mark.parametrize("x", range(4))
        def test_grouped(x):
            time.sleep(0.05)
            pathlib.Path("workers").open("a").write(os.environ["PYTEST_XDIST_WORKER"] + " ")
        """
    armed.makepyfile(test_a=SERVERS, test_b=own)

    result = inner("-n2", "--dist", "loadgroup", "-v", "--shard-durations", "d.json", plugins=WITH_XDIST)

    result.assert_outcomes(passed=8)
    assert starts(armed.path) == 2
    assert len(set((armed.path / "workers").read_text().split())) == 1
    assert not [nodeid for nodeid in ran(result) if "@" in nodeid and "mine" not in nodeid]
    assert not [
        nodeid for nodeid in json.loads((armed.path / "d.json").read_text())["tests"] if "@" in nodeid
    ]


def test_a_reordered_collection_gives_the_same_shard(plain: pytest.Pytester, inner) -> None:
    here = ran(inner(*shard(1, 2), "-v", plugins=OURS))
    with (plain.path / "conftest.py").open("a") as file:
        file.write("\n\ndef pytest_collection_modifyitems(items): items.reverse()\n")

    assert ran(inner(*shard(1, 2), "-v", plugins=OURS)) == here[::-1]


RANDOM_IDS = """
import random
import pytest

@pytest.mark.parametrize("n", random.sample(range(10**9), 4))
def test_drawn(n): pass
"""


@pytest.mark.parametrize(("module", "plans"), [(SERVERS, 1), (RANDOM_IDS, 2)], ids=["shuffled", "drawn"])
def test_a_seed_matters_to_shards_only_where_it_makes_the_tests(
    armed: pytest.Pytester, inner, module: str, plans: int
) -> None:
    armed.makepyfile(test_a=module, test_b=module)
    digests = set()
    for seed in ("1", "2"):
        seeded = ("--randomly-seed", seed, "--shard-plan", "--num-shards", "3")
        result = inner(*seeded, plugins=("pytest_randomly", *OURS))
        digests.add(re.search(r"; plan ([0-9a-f]{12})$", result.stdout.str(), re.MULTILINE)[1])
    assert len(digests) == plans
