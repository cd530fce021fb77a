"""What the plugin costs: a start of pytest, and each collected or executed test, paired against pytest without it.

    python benchmarks/plugin_cost.py [--rounds 7] [--execute] [--json benchmarks/results/plugin-cost.json]

20,000 tests in 400 files are collected by each variant in turn, round by round; a variant's cost is the median of its
differences to "none" in the same round, in CPU seconds of the process, since wall time says more about the neighbours.
The start is measured on a suite of one test and taken off the cost per test. Exit 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
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

FILES, TESTS = 400, 50
BOUND_US, BOUND_IMPORT_MS = 7.0, 40.0
MARKERS = ("core_model", "cpu", "cuda", "hardware", "slow")
CONFIG = "[tool.pytest.ini_options]\naddopts = ['--strict-markers']\nmarkers = {markers}\n{armed}"
# Three files in four are marked by hand, as a module and as functions; the fourth declares its hardware.
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
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument(
        "--execute", action="store_true", help="run the tests instead of only collecting them"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    items = options.files * TESTS
    with tempfile.TemporaryDirectory() as folder:
        large, small = suite(Path(folder, "large"), options.files), suite(Path(folder, "small"), 1)
        start = paired(small, rounds=options.rounds, execute=False)
        whole = paired(large, rounds=options.rounds, execute=options.execute)
    imported = import_ms()
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
                "cpu_s": round(statistics.median(whole[name]), 3),
                **({"start_ms": round(gap(start, name) * 1e3, 1)} if name in PAIRS else {}),
                **(
                    {"us_an_item": round((gap(whole, name) - gap(start, name)) / items * 1e6, 2)}
                    if name in PAIRS
                    else {}
                ),
            }
            for name in VARIANTS
        },
    }
    show(result)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    rows = result["variants"].values()
    broken = imported > BOUND_IMPORT_MS or any(row.get("us_an_item", 0) > BOUND_US for row in rows)
    print("over a bound" if broken else "within the bounds")
    return int(broken)


def suite(root: Path, files: int) -> dict[str, Path]:
    """Write the tests twice: into a project that is armed, and into one that is not and declares nothing."""
    body = "".join(f"def test_{number}():\n    pass\n\n" for number in range(TESTS))
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


def paired(folders: dict[str, Path], *, rounds: int, execute: bool) -> dict[str, list[float]]:
    """Return the CPU seconds of each variant in each round, after one round that writes bytecode."""
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(rounds + 1):
        for name, (loaded, project, arguments) in VARIANTS.items():
            spent = cpu_seconds(folders[project], (*(PLUGIN if loaded else ()), *arguments), execute=execute)
            if number:
                seconds[name].append(spent)
    return seconds


def cpu_seconds(folder: Path, arguments: tuple[str, ...], *, execute: bool) -> float:
    only = () if execute else ("--collect-only",)
    command = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider", *only, *arguments]
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "OMNI", "COV"))
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def gap(seconds: dict[str, list[float]], name: str) -> float:
    """Return the median of a variant's differences to its own "none"."""
    return statistics.median(
        own - none for own, none in zip(seconds[name], seconds[PAIRS[name]], strict=True)
    )


def import_ms() -> float:
    """Return what `import pytest_omni.plugin` takes where pytest is imported already, best of ten, in ms."""
    best = float("inf")
    for _ in range(10):
        code = "import pytest, pytest_omni.plugin"
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
        )
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
    print(f"{'variant':<12} {'CPU s':>7} {'start ms':>9} {'µs an item':>11}  (bound {BOUND_US:g})")
    for name, row in result["variants"].items():
        print(f"{name:<12} {row['cpu_s']:>7} {row.get('start_ms', '–'):>9} {row.get('us_an_item', '–'):>11}")


if __name__ == "__main__":
    sys.exit(main())
