"""What the plugin costs: a start of pytest, and each collected or executed test, paired against pytest without it.

    python benchmarks/plugin_cost.py [--rounds 15] [--execute] [--json benchmarks/results/plugin-cost.json]

20,000 tests in 400 files are collected by each variant in turn, round by round, every other round backwards. What is
compared are CPU seconds of the process, with bytecode written and the garbage collector as users have them. A variant's
cost is the median of its differences from "none" in the same round, the two run one after the other, with the interval
that holds the true median with more than 95 % (order statistics, as for a sign test). The start is measured on a suite
of one file and taken off the cost per test. A bound holds where the whole interval is below it and is broken where all
of it is above; between the two the machine was too busy to tell. Exit 0 only when every bound holds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILES, TESTS = 400, 50
BOUND_US, BOUND_IMPORT_MS = 7.0, 40.0
MARKERS = ("core_model", "cpu", "cuda", "hardware", "slow")
CONFIG = "[tool.pytest.ini_options]\naddopts = ['--strict-markers']\nmarkers = {markers}\n{armed}"
# Three files in four are marked by hand, the fourth declares its hardware; one function in five has a mark of its own.
BY_HAND = "import pytest\n\npytestmark = [pytest.mark.core_model, pytest.mark.cpu]\n\n"
DECLARED = "import pytest\nfrom pytest_omni import hardware_marks\n\n"
DECLARED += "pytestmark = [pytest.mark.core_model, *hardware_marks(res={'cpu': 'any', 'cuda': 'L4'})]\n\n"

PLUGIN = ("-p", "pytest_omni.plugin")
SELECT = ("-m", "core_model and not slow")
# name: plugin loaded, suite, arguments; "unarmed" and its pair see a project that declares no hardware
VARIANTS = {
    "none, plain": (False, "plain", ()),
    "unarmed": (True, "plain", ()),
    "none": (False, "armed", ()),
    "armed": (True, "armed", ()),
    "none -m": (False, "armed", SELECT),
    "armed -m": (True, "armed", SELECT),
}
PAIRS = {"unarmed": "none, plain", "armed": "none", "armed -m": "none -m"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument(
        "--execute", action="store_true", help="run the tests instead of only collecting them"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    items = options.files * TESTS
    with tempfile.TemporaryDirectory() as folder:
        large, small = suite(Path(folder, "large"), options.files), suite(Path(folder, "small"), 1)
        bytecode = Path(folder, "bytecode")
        start = paired(small, bytecode, rounds=options.rounds)
        whole = paired(large, bytecode, rounds=options.rounds, execute=options.execute)
        imported = import_ms(bytecode)
    result = {
        "schema": 1,
        "items": items,
        "rounds": options.rounds,
        "executed": options.execute,
        "python": platform.python_version(),
        "pytest": version("pytest"),
        "cpus": os.cpu_count(),
        "bound_us_an_item": BOUND_US,
        "bound_import_ms": BOUND_IMPORT_MS,
        "import_ms": imported,
        "variants": {
            name: {
                "cpu_s": round(min(whole[name]), 3),
                **(costs(start, whole, name, items) if name in PAIRS else {}),
            }
            for name in VARIANTS
        },
    }
    show(result)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    verdict = judged(result)
    print(verdict)
    return int(verdict != "within the bounds")


def judged(result: dict) -> str:
    """Return whether the bounds hold, are broken, or cannot be told from these rounds."""
    intervals = [row["interval_us"] for row in result["variants"].values() if "interval_us" in row]
    if result["import_ms"] > BOUND_IMPORT_MS or any(low > BOUND_US for low, _ in intervals):
        return "over a bound"
    if any(high > BOUND_US for _, high in intervals):
        return "undecided: an interval reaches over the bound; more rounds, or a machine with less to do"
    return "within the bounds"


def suite(root: Path, files: int) -> dict[str, Path]:
    """Write the tests twice: into a project that is armed, and into one that is not and declares nothing."""
    marks = ["" if number % 5 else "@pytest.mark.slow\n" for number in range(TESTS)]
    body = "".join(f"{mark}def test_{number}():\n    pass\n\n" for number, mark in enumerate(marks))
    folders = {name: root / name for name in ("plain", "armed")}
    for name, folder in folders.items():
        for number in range(files):
            path = folder / f"package_{number % 20}" / f"test_{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            declared = name == "armed" and number % 4 == 3
            path.write_text((DECLARED if declared else BY_HAND) + body, encoding="utf-8")
        table = "\n[tool.omni]\n" if name == "armed" else ""
        config = CONFIG.format(markers=list(MARKERS), armed=table)
        (folder / "pyproject.toml").write_text(config, encoding="utf-8")
    return folders


def paired(
    folders: dict[str, Path], bytecode: Path, *, rounds: int, execute: bool = False
) -> dict[str, list[float]]:
    """Return the CPU seconds of each variant in each round, after one round that writes bytecode."""
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(rounds + 1):
        for name in reversed(VARIANTS) if number % 2 else VARIANTS:
            loaded, project, arguments = VARIANTS[name]
            arguments = (*(PLUGIN if loaded else ()), *arguments)
            spent = cpu_seconds(folders[project], arguments, bytecode, execute=execute)
            if number:
                seconds[name].append(spent)
    return seconds


def cpu_seconds(folder: Path, arguments: tuple[str, ...], bytecode: Path, *, execute: bool) -> float:
    only = () if execute else ("--collect-only",)
    command = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider", *only, *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(bytecode),
        stdout=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def environment(bytecode: Path) -> dict[str, str]:
    """Return an environment in which bytecode is written, whatever this shell has set: most users have it so."""
    ours = ("PYTEST", "PYTHON", "OMNI", "COV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    fixed = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONHASHSEED": "0"}
    return {**kept, **fixed, "PYTHONPYCACHEPREFIX": str(bytecode)}


def costs(
    start: dict[str, list[float]], whole: dict[str, list[float]], name: str, items: int
) -> dict[str, Any]:
    """Return what a variant costs more than its own "none"."""
    begun = statistics.median(between_rounds(start, name))
    items_us = sorted((gap - begun) / items * 1e6 for gap in between_rounds(whole, name))
    low, high = interval(items_us)
    return {
        "start_ms": round(begun * 1e3, 1),
        "us_an_item": round(statistics.median(items_us), 2),
        "interval_us": [round(low, 2), round(high, 2)],
    }


def between_rounds(seconds: dict[str, list[float]], name: str) -> list[float]:
    return [own - none for own, none in zip(seconds[name], seconds[PAIRS[name]], strict=True)]


def interval(ordered: list[float]) -> tuple[float, float]:
    """Return the narrowest two order statistics between which the median lies with 95 %; the ends of a short list."""
    count = len(ordered)
    outside, skipped = 0.0, 0
    while skipped < count // 2:
        outside += 2 * math.comb(count, skipped) / 2**count
        if outside > 0.05:
            break
        skipped += 1
    skipped = max(skipped - 1, 0)
    return ordered[skipped], ordered[count - 1 - skipped]


def import_ms(bytecode: Path) -> float:
    """Return what `import pytest_omni.plugin` takes where pytest is imported already, best of ten, in ms."""
    best = float("inf")
    for _ in range(10):
        command = [sys.executable, "-X", "importtime", "-c", "import pytest, pytest_omni.plugin"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(bytecode))
        found = re.search(r"\| +(\d+) \| +pytest_omni\.plugin$", done.stderr, re.MULTILINE)
        before = re.search(
            r"\| +(\d+) \| pytest_omni$", done.stderr, re.MULTILINE
        )  # the package, an import of its own
        best = min(best, (int(found[1]) + (int(before[1]) if before else 0)) / 1e3)
        time.sleep(0.05)
    return round(best, 1)


def show(result: dict) -> None:
    print(
        f"{result['items']} tests, pytest {result['pytest']}, Python {result['python']}, {result['rounds']} rounds"
    )
    print(f"import pytest_omni.plugin: {result['import_ms']} ms (bound {BOUND_IMPORT_MS:g})")
    print(
        f"{'variant':<12} {'CPU s':>7} {'start ms':>9} {'µs an item':>11}  95 % of it in (bound {BOUND_US:g})"
    )
    for name, row in result["variants"].items():
        columns = [row.get(key, "–") for key in ("start_ms", "us_an_item")]
        within = "{} to {}".format(*row["interval_us"]) if "interval_us" in row else ""
        print("{:<12} {:>7} {:>9} {:>11}  {}".format(name, row["cpu_s"], *columns, within).rstrip())


if __name__ == "__main__":
    sys.exit(main())
