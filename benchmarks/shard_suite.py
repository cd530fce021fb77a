"""One server suite, run for real as one job and as four shards: wall time and GPU time of each way to divide it.

    python benchmarks/shard_suite.py [--repeats 3] [--json benchmarks/results/shard-suite.json]

12 files with a module-scoped server each, 4 tests a server; the server loads for 0.24 s and a test takes 0.02 s. The
shards run one after the other, each alone on the machine, as on four agents; the wall is that of the slowest. Of
each job the fastest of the repeats counts, as timeit does: what else the machine does only makes it slower. Servers
are a thousand times quicker here than with real weights, the start of a Python process is not. The wall that is judged is
that of the whole processes all the same, which nobody can call too kind; pytest's own ("in 1.46s") stands beside it.
GPU time is the time in which servers are alive (`alive_s` of the report), summed over shards. Bytecode is written
once, as an installer does, to a folder of this run, whatever the surroundings say of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "tests" / "pytest_omni" / "stub_server.py"
GROUPS, TESTS, START_S, TEST_S, SHARDS = 12, 4, 0.24, 0.02, 4
WALL_AT_MOST, GPU_AT_MOST = 0.30, 1.02
METHODS = ("group", "duration", "hash")

CONFTEST = f"""
import sys

def pytest_omni_server_command(config, params, port):
    return [sys.executable, {str(STUB)!r}, "--port", str(port), "--slow-start", "{START_S}"]
"""
MODULE = f"""
import time
import pytest
from pytest_omni import OmniServerParams

pytestmark = pytest.mark.parametrize("omni_server", [OmniServerParams("model")], ids=["model"], indirect=True)

@pytest.mark.parametrize("x", range({TESTS}))
def test_served(omni_server, x):
    time.sleep({TEST_S})
"""


@dataclass(frozen=True, slots=True)
class Job:
    """One pytest process: seconds of its session and of all of it, seconds in which servers lived, their number."""

    wall_s: float
    process_s: float
    gpu_s: float
    starts: int
    tests: int


@dataclass(frozen=True, slots=True)
class Way:
    """A way to divide the suite, relative to one job that runs everything; *wall* is pytest's own."""

    method: str
    wall: float
    process_wall: float
    gpu: float
    starts: int
    wall_s: float
    gpu_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/shard-suite.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omni-shard-suite-") as folder:
        project = make(Path(folder))
        alone = fastest([run(project) for _ in range(options.repeats + 1)])  # the first also compiles
        ways = [divided(project, by, alone, options.repeats) for by in METHODS]
    document = {
        "schema": 1,
        "suite": f"{GROUPS} servers × {TESTS} tests, start {START_S} s, test {TEST_S} s, {SHARDS} shards",
        "repeats": options.repeats,
        "one_job_s": round(alone.wall_s, 3),
        "one_job_process_s": round(alone.process_s, 3),
        "reach": {"process_wall": WALL_AT_MOST, "gpu": GPU_AT_MOST},
        "ways": [asdict(way) for way in ways],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    show(document, ways)
    group = ways[0]
    reached = group.process_wall <= WALL_AT_MOST and group.gpu <= GPU_AT_MOST
    print(
        f"reach of {group.method}: whole processes {group.process_wall:.3f} (at most {WALL_AT_MOST}), "
        f"GPU {group.gpu:.3f} (at most {GPU_AT_MOST}): {'yes' if reached else 'NO'}"
    )
    return 0 if reached else 3


def divided(project: Path, by: str, alone: Job, repeats: int) -> Way:
    jobs = [fastest([run(project, shard=shard, by=by) for _ in range(repeats)]) for shard in range(SHARDS)]
    assert sum(job.tests for job in jobs) == alone.tests == GROUPS * TESTS
    wall, gpu = max(job.wall_s for job in jobs), sum(job.gpu_s for job in jobs)
    return Way(
        method=by,
        wall=round(wall / alone.wall_s, 3),
        process_wall=round(max(job.process_s for job in jobs) / alone.process_s, 3),
        gpu=round(gpu / alone.gpu_s, 3),
        starts=sum(job.starts for job in jobs),
        wall_s=round(wall, 3),
        gpu_s=round(gpu, 3),
    )


def fastest(jobs: Sequence[Job]) -> Job:
    return min(jobs, key=lambda job: job.wall_s)


def run(project: Path, *, shard: int | None = None, by: str = "group") -> Job:
    """Run the whole suite, which also measures it for the plan, or one shard of it."""
    for stale in (project / "report.json", *project.glob("durations.*-of-*.json")):
        stale.unlink(missing_ok=True)
    plugins = ["-p", "pytest_omni.plugin", "-p", "pytest_shard.pytest_shard", "-p", "no:cacheprovider"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "-q",
        "--shard-durations",
        "durations.json",
        "--omni-report",
        "report.json",
    ]
    if shard is not None:
        command += ["--num-shards", str(SHARDS), "--shard-id", str(shard), "--shard-by", by]
    began = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        check=False,
    )
    process = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    said = re.search(r" in ([\d.]+)s", done.stdout.splitlines()[-1])
    assert said, done.stdout
    return measured(project / "report.json", float(said[1]), process)


def environment(project: Path) -> dict[str, str]:
    """Return ours, with bytecode of this run's own: PYTHONDONTWRITEBYTECODE would have every process compile again."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPYCACHEPREFIX": str(project / "bytecode"),
    }


def measured(report: Path, wall: float, process: float) -> Job:
    told = json.loads(report.read_text())
    servers, items = told["servers"], told["items"]
    tests = sum(item["state"] == "passed" for item in items)
    return Job(wall, process, sum(server["alive_s"] for server in servers), len(servers), tests)


def make(project: Path) -> Path:
    (project / "pyproject.toml").write_text("[tool.omni]\n")
    (project / "conftest.py").write_text(CONFTEST)
    for group in range(GROUPS):
        (project / f"test_{group:02}.py").write_text(MODULE)
    return project


def show(document: Mapping[str, object], ways: Sequence[Way]) -> None:
    print(f"{document['suite']}; one job {document['one_job_s']} s, fastest of {document['repeats']}")
    print(
        f"  {'--shard-by':12}{'wall':>8}{'processes':>11}{'GPU time':>10}{'starts':>8}{'slowest shard':>16}"
    )
    for way in ways:
        print(
            f"  {way.method:12}{way.wall:>7.2f}×{way.process_wall:>10.2f}×{way.gpu:>9.2f}×{way.starts:>8}{way.wall_s:>14.2f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
