"""What planning costs: CPU seconds and memory by steps and changed files, and a cold `generate`.

    python benchmarks/orchestrator.py [--rounds 3] [--json benchmarks/results/orchestrator.json]

A scratch git repository holds pipelines of 500 steps each, every step with a preset read from its marks or named, three
watched paths and a pytest run; the head commit changes every file of the tree. `plan` is timed in a process of its
own after its imports (CPU seconds of that process, git's own beside it), 1× and 10× in steps and in files; what counts
is the fastest round. `generate` is timed from outside, interpreter start included. Exit 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS, FILES, PER_FILE = 1_000, 10_000, 500
BOUND_PLAN_S, BOUND_GENERATE_S, BOUND_MIB, BOUND_RATIO = 1.0, 0.8, 200, 12.0
FOLDERS = 200
PRESETS = """\
schema: 1
skus:
  l4: {platform: cuda, sku: L4, template: k8s-spec, cards: [1, 2, 4], queue: l4-k8s, resource: nvidia.com/gpu,
       per_card: {cpu: 10, memory: 40Gi, shm: 24Gi}}
"""
STEP = """\
      - label: "Area {area} · Test {number}"
        key: step-{number}
        timeout_in_minutes: 30
        source_file_dependencies: [{folder}, src/shared_{area:03}.py, "!src/area_{area:03}/notes/"]
{hardware}        commands:
          - pytest -sv tests/area_{area:03}/test_{number}.py -m 'core_model and cuda and L4 and cards_1'
"""


def main() -> int:
    options = parsed()
    if options.child:
        return child(options.child)
    sizes = [(STEPS, FILES), (STEPS * 10, FILES), (STEPS, FILES * 10)]
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(Path(folder), steps, files, options.rounds) for steps, files in sizes]
        generate, generate_cpu = cold_generate(Path(folder), max(options.rounds, 5))
    small, many_steps, many_files = rows
    ratios = {
        "10x steps": many_steps["cpu_s"] / small["cpu_s"],
        "10x files": many_files["cpu_s"] / small["cpu_s"],
    }
    result = {
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} CPUs",
        "plan": rows,
        "ratios": ratios,
        "generate_100_steps_s": generate,
        "bounds": {
            "plan_cpu_s": BOUND_PLAN_S,
            "generate_s": BOUND_GENERATE_S,
            "mib_at_10000_steps": BOUND_MIB,
            "ratio": BOUND_RATIO,
        },
    }
    result["generate_100_steps_cpu_s"] = generate_cpu
    report(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    broken = [
        small["cpu_s"] > BOUND_PLAN_S,
        generate > BOUND_GENERATE_S,
        many_steps["mib"] > BOUND_MIB,
        max(ratios.values()) > BOUND_RATIO,
    ]
    return int(any(broken))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def report(result: dict) -> None:
    print(f"{'steps':>7} {'files':>8} {'CPU s':>7} {'git s':>7} {'MiB':>6}  running")
    for row in result["plan"]:
        print(
            f"{row['steps']:>7} {row['files']:>8} {row['cpu_s']:>7.2f} {row['git_s']:>7.2f} {row['mib']:>6.0f}  {row['running']}"
        )
    for name, ratio in result["ratios"].items():
        print(f"{name}: {ratio:.1f} times the CPU (at most {BOUND_RATIO})")
    wall, cpu = result["generate_100_steps_s"], result["generate_100_steps_cpu_s"]
    print(f"cold generate of 100 steps: {wall:.2f} s (at most {BOUND_GENERATE_S}), {cpu:.2f} s of it CPU")


def measured(folder: Path, steps: int, files: int, rounds: int) -> dict:
    root = made(folder / f"{steps}-{files}", steps, files)
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, __file__, "--child", str(root)], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(rounds)
    ]
    best = min(runs, key=lambda run: run["cpu_s"])
    return {"steps": steps, "files": files, **best}


def child(root: str) -> int:
    from omni_ci.planning import Asked, make_plan

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.process_time()
    plan = make_plan(Asked(base="HEAD~1"), here=Path(root), environ={})
    text = plan.selection.to_json()
    cpu = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    git = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    running = sum(step["runs"] for step in json.loads(text)["steps"])
    print(json.dumps({"cpu_s": cpu, "git_s": git, "mib": mib, "running": running}))
    return 0


def cold_generate(folder: Path, rounds: int) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of the fastest run, git's included."""
    root = made(folder / "generate", 100, 10)
    command = [sys.executable, "-m", "omni_ci", "generate", ".buildkite/cuda/test-000.yml", "--all"]
    runs = []
    for _ in range(rounds + 1):  # the first one writes bytecode
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=root, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        runs.append((time.perf_counter() - start, cpu))
    return min(runs[1:])


def made(root: Path, steps: int, files: int) -> Path:
    """Return a repository with two commits, the second of which changes every file."""
    (root / ".buildkite/cuda").mkdir(parents=True)
    (root / ".buildkite/presets.yml").write_text(PRESETS)
    for start in range(0, steps, PER_FILE):
        numbers = range(start, min(steps, start + PER_FILE))
        text = "steps:\n  - group: Tests\n    steps:\n" + "".join(map(step, numbers))
        (root / f".buildkite/cuda/test-{start // PER_FILE:03}.yml").write_text(text)
    paths = [
        root / f"src/area_{number % FOLDERS:03}/part_{number % 7}/file_{number}.py" for number in range(files)
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    for area in range(FOLDERS):
        (root / f"src/shared_{area:03}.py").write_text("")
    git(root, "init", "-q")
    commit(root)
    for path in paths:
        path.write_text("x = 2\n")
    commit(root)
    return root


def step(number: int) -> str:
    """Return one step; every other one is not concerned by the change, so that every rule is asked about it."""
    area = number % FOLDERS
    hardware = "        mirror_hardwares: l4_1\n" if number % 4 < 2 else ""
    folder = f"src/area_{area:03}/" if number % 2 else f"src/shared_{area:03}.py"
    return STEP.format(area=area, folder=folder, number=number, hardware=hardware)


def commit(root: Path) -> None:
    git(root, "add", "-A")
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "gc.auto=0")
    git(root, *identity, "commit", "-qm", "x")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
