"""The test lanes: one table, run in order. Every collected test is in exactly one lane of TEST_LANES.

`scripts/test.sh` stops at the first red lane; --keep-going runs them all. A lane is a path or one marker.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class TestLane:
    """A pytest run: folders, folders left out, a marker expression, and further options."""

    __test__ = False  # not a test class, whatever its name

    name: str
    paths: tuple[str, ...]
    without: tuple[str, ...] = ()
    marks: str = "not process"
    options: tuple[str, ...] = ()
    fast: bool = True
    opt_in: bool = False
    on_card: bool = False

    def arguments(self) -> list[str]:
        """Return the pytest arguments that choose this lane's tests."""
        return [*self.paths, *(f"--ignore={path}" for path in self.without), "-m", self.marks]


TEST_LANES = (
    TestLane(
        name="unit",
        paths=("tests/omni_hardware", "tests/omni_ci", "tests/omni/config"),
        without=("tests/omni_ci/commands", "tests/omni_ci/browser"),
        options=("-n2",),
    ),
    TestLane(
        name="pytester",
        paths=("tests/pytest_omni", "tests/omni_ci/commands", "tests/contracts"),
        options=("-n2",),
    ),
    # Signals, ports and groups: never side by side with another test.
    TestLane(name="process", paths=("tests",), without=("tests/e2e", "tests/omni"), marks="process"),
    # One process: two that import torch get in each other's way on two cores.
    TestLane(name="torch", paths=("tests/omni",), without=("tests/omni/config",), fast=False),
    # The same for `omni serve`, whose processes import torch.
    TestLane(name="server", paths=("tests/omni",), marks="process", fast=False),
    TestLane(name="e2e", paths=("tests/e2e",), marks="cpu", fast=False),
    TestLane(
        name="gpu",
        paths=("tests/e2e", "tests/gpu"),
        marks="cuda or rocm",
        fast=False,
        opt_in=True,
        on_card=True,
    ),
    # Needs chromium, which no wheel brings; without it every test skips.
    TestLane(name="browser", paths=("tests/omni_ci/browser",), fast=False, opt_in=True),
)

LANES = ("static", *(lane.name for lane in TEST_LANES if not lane.opt_in))
FAST = ("static", *(lane.name for lane in TEST_LANES if lane.fast))
OPT_IN = (*(lane.name for lane in TEST_LANES if lane.opt_in), "compat", "soak")


def door() -> int:
    """Return the exit code of `main`, 130 when the person at the terminal ended it."""
    try:
        return main(sys.argv[1:])
    except KeyboardInterrupt:
        print("test.sh: interrupted", file=sys.stderr)
        return 130


def main(arguments: Sequence[str]) -> int:
    """Run the lanes that *arguments* name and return the first red lane's exit code, else 0."""
    options = parse(arguments)
    results: list[tuple[str, float, int]] = []
    for name in chosen(options):
        print(f"\n=== lane {name}", flush=True)
        started = time.monotonic()
        code = run_lane(name)
        results.append((name, time.monotonic() - started, code))
        if code and not options.keep_going:
            break
    print("\nlane      seconds  result")
    for name, seconds, code in results:
        print(f"{name:<9} {seconds:>7.1f}  {'ok' if code == 0 else f'RED, exit {code}'}")
    print(f"{'all':<9} {sum(seconds for _, seconds, _ in results):>7.1f}")
    return next((code for _, _, code in results if code), 0)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; argparse ends the process with 2 for a wrong one."""
    parser = argparse.ArgumentParser(prog="scripts/test.sh", description="Run the test lanes, in order.")
    parser.add_argument(
        "lanes", nargs="*", metavar="LANE", help=f"only these: {', '.join((*LANES, *OPT_IN))}"
    )
    parser.add_argument("--fast", action="store_true", help=f"without torch: {', '.join(FAST)}")
    parser.add_argument("--keep-going", action="store_true", help="run every lane, even after a red one")
    parser.add_argument("--gpu", action="store_true", help="only the e2e tests of the cards that are here")
    parser.add_argument("--browser", action="store_true", help="only what a headless chromium is needed for")
    parser.add_argument(
        "--compat", action="store_true", help="only the oldest supported pytest and diffusers"
    )
    parser.add_argument(
        "--soak", action="store_true", help="only 200 servers and 20 kills; what is left is red"
    )
    options = parser.parse_args(arguments)
    if options.fast and (options.lanes or any(getattr(options, name) for name in OPT_IN)):
        parser.error("--fast chooses the lanes itself; leave it out, or the lanes")
    if unknown := [name for name in options.lanes if name not in {*LANES, *OPT_IN}]:
        parser.error(f"no lane {unknown[0]!r} (known: {', '.join((*LANES, *OPT_IN))})")
    return options


def chosen(options: argparse.Namespace) -> list[str]:
    """Return the names of the lanes to run, in order."""
    named = [*options.lanes, *(name for name in OPT_IN if getattr(options, name))]
    return list(dict.fromkeys(named)) or list(FAST if options.fast else LANES)


def run_lane(name: str) -> int:
    """Run one lane and return its exit code."""
    if name == "static":
        return run_static()
    if name == "compat":
        import compat

        return compat.main()
    if name == "soak":
        return run([sys.executable, "benchmarks/soak.py", "--json", "benchmarks/results/soak.json"])
    lane = next(lane for lane in TEST_LANES if lane.name == name)
    if lane.on_card:
        here = platform_here()
        if here is None:
            print(f"lane {name}: torch finds no card for '{lane.marks}' on this machine, so no test was run")
            return 4
        lane = replace(lane, marks=here)
    return run([sys.executable, "-m", "pytest", "-q", *lane.options, *lane.arguments()])


def platform_here() -> str | None:
    """Return the platform of the cards that torch finds, None without one; asked in a process that ends."""
    script = (
        "import torch; print(torch.cuda.is_available() and ('rocm' if torch.version.hip else 'cuda') or '')"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() or None


def run_static() -> int:
    """Run every checker that executes nothing of ours; all of them, so that one round shows everything."""
    with tempfile.TemporaryDirectory() as site:
        return next((code for code in [run(command) for command in static_commands(site)] if code), 0)


def static_commands(site: str) -> Iterable[list[str]]:
    """Yield the checkers' command lines; the docs are built into *site*."""
    yield [str(BIN / "ruff"), "check", "--quiet"]
    yield [str(BIN / "ruff"), "format", "--check", "--quiet"]
    yield [str(BIN / "mypy")]
    yield [str(BIN / "mypy"), "scripts"]
    yield [str(BIN / "lint-imports"), "--no-logo"]
    yield [str(BIN / "omni-ci"), "lint"]
    yield [
        str(BIN / "shellcheck"),
        *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("scripts/*.sh")),
        ".ci/run",
    ]
    yield [str(BIN / "mkdocs"), "build", "--strict", "--site-dir", site]


def run(command: Sequence[str]) -> int:
    """Run *command* in the repository and return its exit code."""
    print("$", " ".join(command).replace(f"{ROOT}/", ""), flush=True)
    # mkdocs-material's advice to move on is no finding of ours
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(door())
