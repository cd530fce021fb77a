"""How even shards are, and what they cost with server starts: our methods beside pytest-shard and pytest-split.

    python benchmarks/sharding_tables.py [--draws FACTOR] [--json benchmarks/results/sharding-tables.json]

Durations are drawn: log-normal a test times log-normal (sigma 0.8) a file, seeds fixed. pytest-split's own code is
used where it is installed, else its two algorithms as described in its README, and the tables say which.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from pytest_shard.pytest_shard import filter_items_by_shard

from pytest_omni.sharding.estimates import UNKNOWN_TEST_S
from pytest_omni.sharding.plan import METHODS, plan
from pytest_omni.sharding.suite import Case, Suite

SHARDS = (2, 4, 8)
FILE_SIGMA = 0.8
MANY = 5000  # tests from which on pytest-split's quadratic lists take minutes

# Where each test of a suite runs.
Assignment = Sequence[int]


@dataclass(frozen=True, slots=True)
class Unit:
    """A suite without shared fixtures: *tests* in *files*, spread sigma, drawn so many times."""

    name: str
    tests: int
    files: int
    sigma: float
    draws: int


@dataclass(frozen=True, slots=True)
class Server:
    """A suite of server groups: seconds of a start and of a test are the middle of a spread."""

    name: str
    groups: int
    tests: int
    start: float
    test: float
    draws: int = 300


UNITS = (
    Unit("20,000 tests / 400 files, sigma 1.0", 20_000, 400, 1.0, 3),
    Unit("2,000 / 100, sigma 1.5", 2_000, 100, 1.5, 20),
    Unit("200 / 25, sigma 1.5", 200, 25, 1.5, 200),
    Unit("24 / 8, sigma 1.0 (an e2e job)", 24, 8, 1.0, 500),
    Unit("8 / 2, sigma 1.0 (one model)", 8, 2, 1.0, 500),
)
SERVERS = (
    Server("12 groups × 4 tests, start ≈ 240 s, test ≈ 20 s", 12, 4, 240, 20),
    Server("4 groups × 6 tests, start ≈ 240 s, test ≈ 30 s", 4, 6, 240, 30),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=float, default=1.0, help="a factor on the number of draws")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/sharding-tables.json"))
    options = parser.parse_args()
    split, source = pytest_split()
    began = time.perf_counter()
    imbalance = [row for suite in UNITS for row in imbalance_rows(suite, split, options.draws)]
    servers = [row for suite in SERVERS for row in server_rows(suite, split, options.draws)]
    document = {
        "schema": 1,
        "pytest_split": source,
        "seconds": round(time.perf_counter() - began, 1),
        "imbalance": imbalance,
        "servers": servers,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    show(document)


def imbalance_rows(suite: Unit, split: Mapping[str, Splitter], factor: float) -> list[dict[str, object]]:
    rows = []
    for shards in SHARDS:
        found: dict[str, list[float]] = {}
        for draw in range(max(1, round(suite.draws * factor))):
            cases = drawn_units(suite, random.Random(f"{suite.name} {draw}"))
            ideal = sum(case.seconds for case in cases) / shards
            bound = max(1.0, max(case.seconds for case in cases) / ideal)
            found.setdefault("lower bound", []).append(bound)
            for name, assignment in assignments(Suite(cases), shards, split).items():
                loads = [0.0] * shards
                for case, shard in zip(cases, assignment, strict=True):
                    loads[shard] += case.seconds
                found.setdefault(name, []).append(max(loads) / ideal)
        rows += [
            {
                "suite": suite.name,
                "shards": shards,
                "method": name,
                "mean": round(statistics.fmean(values), 3),
                "worst": round(max(values), 3),
                "draws": len(values),
            }
            for name, values in found.items()
        ]
    return rows


def server_rows(suite: Server, split: Mapping[str, Splitter], factor: float) -> list[dict[str, object]]:
    rows = []
    for shards in SHARDS:
        found: dict[str, list[tuple[float, float, int]]] = {}
        for draw in range(max(1, round(suite.draws * factor))):
            drawn = drawn_servers(suite, random.Random(f"{suite.name} {draw}"))
            for name, assignment in assignments(drawn, shards, split).items():
                found.setdefault(name, []).append(costs(drawn, assignment, shards))
        rows += [
            {
                "suite": suite.name,
                "shards": shards,
                "method": name,
                "wall": round(statistics.fmean(wall for wall, _, _ in values), 3),
                "gpu": round(statistics.fmean(gpu for _, gpu, _ in values), 3),
                "starts": round(statistics.fmean(starts for _, _, starts in values), 1),
                "draws": len(values),
            }
            for name, values in found.items()
        ]
    return rows


def costs(suite: Suite, assignment: Assignment, shards: int) -> tuple[float, float, int]:
    """Return wall and machine time relative to one job, and how often a server was started."""
    parts = [[at for at, shard in enumerate(assignment) if shard == number] for number in range(shards)]
    found = [suite.part(part, "") for part in parts if part]
    alone = suite.part(range(len(suite.cases)), "").seconds
    starts = sum(len(part.needs) for part in found)
    return max(part.seconds for part in found) / alone, sum(part.seconds for part in found) / alone, starts


def assignments(suite: Suite, shards: int, split: Mapping[str, Splitter]) -> dict[str, Assignment]:
    """Return where each method runs each test."""
    ids = [case.id for case in suite.cases]
    found: dict[str, Assignment] = {"pytest-shard": by_pytest_shard(ids, shards)}
    if len(ids) < MANY:
        # what pytest-split measures: a set-up is part of the first test that needs it
        billed = billed_to_the_first(suite)
        for name, splitter in split.items():
            found[f"pytest-split {name}"] = splitter(ids, billed, shards)
        found["pytest-split least_duration, nothing known"] = split["least_duration"](ids, {}, shards)
    for by in METHODS:
        found[f"ours: {by}"] = shard_of(suite, shards, by)
    unknown = Suite(
        tuple(Case(id=case.id, seconds=UNKNOWN_TEST_S, needs=case.needs) for case in suite.cases),
        dict.fromkeys(suite.setups, 12 * UNKNOWN_TEST_S),
    )
    found["ours: group, nothing known"] = shard_of(unknown, shards, "group")
    return found


def shard_of(suite: Suite, shards: int, by: str) -> Assignment:
    found = [0] * len(suite.cases)
    for number, shard in enumerate(plan(suite, shards, by).shards):
        for at in shard.cases:
            found[at] = number
    return found


def by_pytest_shard(ids: Sequence[str], shards: int) -> Assignment:
    items = [SimpleNamespace(nodeid=nodeid, at=at) for at, nodeid in enumerate(ids)]
    found = [0] * len(ids)
    for number in range(shards):
        for item in filter_items_by_shard(items, number, shards):
            found[item.at] = number
    return found


def billed_to_the_first(suite: Suite) -> dict[str, float]:
    paid: set[str] = set()
    found = {}
    for case in suite.cases:
        found[case.id] = case.seconds + sum(suite.setups[need] for need in case.needs if need not in paid)
        paid.update(case.needs)
    return found


Splitter = Callable[[Sequence[str], Mapping[str, float], int], Assignment]


def pytest_split() -> tuple[dict[str, Splitter], str]:
    """Return pytest-split's algorithms, and whose code they are."""
    try:
        from importlib.metadata import version

        from pytest_split.algorithms import Algorithms
    except ImportError:
        return {
            "duration_based_chunks": chunks,
            "least_duration": least_duration,
        }, "reimplemented from its README"

    def theirs(name: str) -> Splitter:
        def split(ids: Sequence[str], durations: Mapping[str, float], shards: int) -> Assignment:
            items = [SimpleNamespace(nodeid=nodeid) for nodeid in ids]
            groups = Algorithms[name].value(shards, items, dict(durations))
            home = {item.nodeid: number for number, group in enumerate(groups) for item in group.selected}
            return [home[nodeid] for nodeid in ids]

        return split

    return {name: theirs(name) for name in ("duration_based_chunks", "least_duration")}, version(
        "pytest-split"
    )


def chunks(ids: Sequence[str], durations: Mapping[str, float], shards: int) -> Assignment:
    """Fill one group after the other, in collection order, each until it has its even share."""
    unknown = statistics.fmean(durations.values()) if durations else 1.0
    seconds = [durations.get(nodeid, unknown) for nodeid in ids]
    found, share, load, group = [], sum(seconds) / shards, 0.0, 0
    for cost in seconds:
        if load >= share:
            group, load = group + 1, 0.0
        load += cost
        found.append(min(group, shards - 1))
    return found


def least_duration(ids: Sequence[str], durations: Mapping[str, float], shards: int) -> Assignment:
    """Give the longest test to the group with the least load."""
    unknown = statistics.fmean(durations.values()) if durations else 1.0
    loads, found = [0.0] * shards, [0] * len(ids)
    for at in sorted(range(len(ids)), key=lambda at: (-durations.get(ids[at], unknown), ids[at])):
        found[at] = loads.index(min(loads))
        loads[found[at]] += durations.get(ids[at], unknown)
    return found


def drawn_units(suite: Unit, draw: random.Random) -> tuple[Case, ...]:
    name = draw.randrange(10**6)  # what a hash makes of it must not be one draw's luck
    files = [draw.lognormvariate(0, FILE_SIGMA) for _ in range(suite.files)]
    return tuple(
        Case(
            id=f"tests/test_{at % suite.files:03}.py::test_{name}_{at}",
            seconds=files[at % suite.files] * draw.lognormvariate(0, suite.sigma),
        )
        for at in sorted(range(suite.tests), key=lambda at: (at % suite.files, at))
    )


def drawn_servers(suite: Server, draw: random.Random) -> Suite:
    name = draw.randrange(10**6)
    keys = [f"omni_server@tests/test_{group:02}.py[model]" for group in range(suite.groups)]
    cases = tuple(
        Case(
            id=f"tests/test_{group:02}.py::test_{name}_{test}[model]",
            seconds=suite.test * draw.lognormvariate(0, 0.25),
            needs=(keys[group],),
        )
        for group in range(suite.groups)
        for test in range(suite.tests)
    )
    return Suite(cases, {key: suite.start * draw.lognormvariate(0, 0.1) for key in keys})


def show(document: Mapping[str, object]) -> None:
    print(f"pytest-split: {document['pytest_split']}; {document['seconds']} s")
    print("\nmax shard ÷ ideal: mean (worst)")
    table(document["imbalance"], lambda row: f"{row['mean']:.2f} ({row['worst']:.2f})")
    print("\nrelative to one job: wall / GPU time / server starts")
    table(document["servers"], lambda row: f"{row['wall']:.2f} / {row['gpu']:.2f} / {row['starts']:.1f}")


def table(rows: object, cell: Callable[[Mapping[str, object]], str]) -> None:
    assert isinstance(rows, list)
    for suite in dict.fromkeys(row["suite"] for row in rows):
        here = [row for row in rows if row["suite"] == suite]
        print(f"\n  {suite} ({here[0]['draws']} draws)")
        print(f"    {'shards':48}" + "".join(f"{shards:>20}" for shards in SHARDS))
        for method in dict.fromkeys(row["method"] for row in here):
            cells = {row["shards"]: cell(row) for row in here if row["method"] == method}
            print(f"    {method:48}" + "".join(f"{cells[shards]:>20}" for shards in SHARDS))


if __name__ == "__main__":
    main()
