"""What the plugin adds to each collected test, in machine instructions: the same number on a busy machine as on a quiet one.

    python benchmarks/plugin_instructions.py [--json benchmarks/results/plugin-instructions.json]

`plugin_cost.py` measures seconds, which on a small machine scatter by more than the plugin costs. Here valgrind's
cachegrind counts what pytest executes with and without the plugin, on a suite of 1,000 tests and on one of 4,000; the
difference of the two is what 3,000 tests cost, without the start. Each variant is a ratio against its own "none", in
one run. Exit 1 when the plugin adds more than 5 % to a test.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from plugin_cost import PAIRS, PLUGIN, TESTS, VARIANTS, cpu_seconds, environment, suite

FILES = (20, 80)
BOUND = 0.05
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not on PATH: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        bytecode = Path(folder, "bytecode")
        suites = [suite(Path(folder, str(files)), files) for files in FILES]
        a_test = {name: instructions_a_test(name, suites, bytecode) for name in VARIANTS}
    added = {name: a_test[name] / a_test[none] - 1 for name, none in PAIRS.items()}
    print(f"pytest {version('pytest')}, Python {platform.python_version()}, counted by {valgrind()}")
    print(f"{'variant':<12} {'instructions a test':>19} {'added':>7}  (bound {BOUND:.0%})")
    for name, count in a_test.items():
        print(f"{name:<12} {count:>19,.0f} {f'{added[name]:.2%}' if name in added else '–':>7}")
    if options.json:
        result = {
            "schema": 1,
            "python": platform.python_version(),
            "pytest": version("pytest"),
            "counted_by": valgrind(),
            "bound": BOUND,
            "variants": {
                name: {
                    "instructions_a_test": round(count),
                    "added": round(added[name], 4) if name in added else None,
                }
                for name, count in a_test.items()
            },
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    broken = [name for name, share in added.items() if share > BOUND]
    print(f"over the bound: {', '.join(broken)}" if broken else "within the bound")
    return int(bool(broken))


def instructions_a_test(name: str, suites: list[dict[str, Path]], bytecode: Path) -> float:
    """Return what one more test costs: the slope between the two suites."""
    loaded, project, arguments = VARIANTS[name]
    arguments = (*(PLUGIN if loaded else ()), *arguments)
    small, large = (instructions(folders[project], arguments, bytecode) for folders in suites)
    return (large - small) / ((FILES[1] - FILES[0]) * TESTS)


def instructions(folder: Path, arguments: tuple[str, ...], bytecode: Path) -> int:
    cpu_seconds(folder, arguments, bytecode, execute=False)  # writes bytecode, so that none is counted
    counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider", "--collect-only", *arguments]
    done = subprocess.run(
        [*counter, *command],
        cwd=folder,
        env=environment(bytecode),
        capture_output=True,
        text=True,
        check=False,
    )
    found = COUNTED.search(done.stderr)
    if done.returncode or not found:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def valgrind() -> str:
    return subprocess.run(
        ["valgrind", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
