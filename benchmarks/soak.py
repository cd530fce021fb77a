"""Soak: hundreds of servers and dozens of killed pytests, then a look at what is left. It must be nothing.

    python benchmarks/soak.py [--cycles 200] [--omni 5] [--kills 20] [--seed 0] [--json benchmarks/results/soak.json]

A cycle starts and stops a stub server: every fourth has two processes, every fifth is deaf to SIGTERM, every seventh
leaves a process in a session of its own. `--omni` of them are `omni serve` with a tiny checkpoint. A kill sends TERM, INT
or KILL to a pytest at a random moment, its servers starting, serving or stopping. Five seconds after each part no process
of ours may live, no port may be open, no lock held, and no file may lie outside pytest's own temporary folder. Exit 1
when something is left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from omni_hardware.processes import named, tagged

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "tests" / "pytest_omni" / "stub_server.py"
MARK = "OMNI_SOAK"  # in the environment of everything that this script starts
AFTER_S = 5.0
PYTEST_ENDS_S = 60.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)

CONFTEST = f"""
import os, sys

STUB = {str(STUB)!r}

def pytest_omni_server_command(config, params, port):
    with open(os.environ["SOAK_PORTS"], "a") as ports:
        ports.write(f"{{port}}\\n")
    if params.model.startswith("/"):
        return [sys.executable, "-m", "omni.cli", "serve", params.model, "--host", "127.0.0.1", "--port", str(port)]
    stub = [sys.executable, STUB, "--port", str(port), "--pids", os.environ["SOAK_PIDS"], *params.server_args]
    return [stub, [*stub, "--no-binds"]] if params.model == "two" else [stub]
"""
SUITE = """
import json, os, time
import pytest
from pytest_omni import OmniServerParams

PLAN = json.loads(os.environ["SOAK_PLAN"])
PARAMS = [OmniServerParams(model, server_args=tuple(args), stop_timeout=stop) for model, args, stop in PLAN]

@pytest.mark.parametrize("omni_server_function", PARAMS, ids=map(str, range(len(PLAN))), indirect=True)
def test_cycle(omni_server_function, online_client):
    assert online_client.get("/health").status == 200
    time.sleep(float(os.environ["SOAK_STAY_S"]))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One part of the soak, and what it left; all the lists must be empty."""

    part: str
    seconds: float
    ended: str
    servers: int
    processes: list[str]
    ports: list[int]
    locks: list[str]
    files: list[str]

    @property
    def clean(self) -> bool:
        return not (self.processes or self.ports or self.locks or self.files)


class Soak:
    """A project in a temporary folder, and everything that is started from it."""

    def __init__(self, folder: Path) -> None:
        self.project, self.temp, self.records = folder / "project", folder / "temp", folder / "records"
        for place in (self.project, self.temp, self.records):
            place.mkdir()
        (self.project / "pyproject.toml").write_text("[tool.omni]\n")
        (self.project / "conftest.py").write_text(CONFTEST)
        (self.project / "test_soak.py").write_text(SUITE)
        self.before = set(self.project.rglob("*"))
        self.told: set[str] = set()  # a file is blamed on the part after which it was found first
        self.mark = uuid.uuid4().hex
        self.pids, self.ports = self.records / "pids", self.records / "ports"

    def environ(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            MARK: self.mark,
            "TMPDIR": str(self.temp),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "SOAK_PIDS": str(self.pids),
            "SOAK_PORTS": str(self.ports),
            "SOAK_STAY_S": "0",
            # torch's own cache, made by importing it and meant to stay
            "TORCHINDUCTOR_CACHE_DIR": str(self.records / "torchinductor"),
            **more,
        }

    def start(self, plan: list[tuple[str, list[str], float]], **more: str) -> subprocess.Popen[bytes]:
        environ = self.environ(SOAK_PLAN=json.dumps(plan), **more)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_omni.plugin"]
        log = (self.records / "pytest.log").open("wb")
        with log:
            return subprocess.Popen(
                command, cwd=self.project, env=environ, stdout=log, stderr=log, start_new_session=True
            )

    def row(self, part: str, began: float, ended: str) -> Row:
        """Wait five seconds and return what is left of everything so far."""
        seconds = time.monotonic() - began
        deadline = time.monotonic() + AFTER_S
        while (left := tagged(MARK, self.mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        servers = sum(1 for _ in self.pids.open()) if self.pids.exists() else 0
        used = {int(word) for word in self.ports.read_text().split()} if self.ports.exists() else set()
        allowed = {
            f"pytest-of-{name}"
            for name in (os.environ.get("USER", ""), os.environ.get("LOGNAME", ""), _user())
        }
        strays = [str(path) for path in self.project.rglob("*") if path not in self.before]
        strays += [str(path) for path in self.temp.iterdir() if path.name not in allowed]
        strays, self.told = [path for path in strays if path not in self.told], self.told | set(strays)
        return Row(
            part,
            round(seconds, 2),
            ended,
            servers,
            [named([process]) for process in left],
            sorted(port for port in used if _is_open(port)),
            [str(path) for path in self.temp.rglob("*.lock") if _is_held(path)],
            strays,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument(
        "--omni", type=int, default=5, help="cycles with `omni serve`, which needs the runtime"
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="omni-soak-") as folder:
        soak = Soak(Path(folder))
        found = [cycles(soak, options.cycles)] if options.cycles else []
        if options.omni:
            found.append(serving(soak, options.omni))
        found += [kill(soak, number, chance) for number in range(options.kills)]
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    report(found)
    return 0 if all(row.clean and not row.ended.startswith("RED") for row in found) else 1


def cycles(soak: Soak, count: int) -> Row:
    """Start and stop *count* stub servers in one pytest."""
    return finished(soak, f"{count} stub cycles", [stub(number) for number in range(count)])


def serving(soak: Soak, count: int) -> Row:
    """Start and stop `omni serve` *count* times."""
    model = soak.records / "tiny"
    command = [sys.executable, "-m", "omni.cli", "tiny", "z_image", str(model)]
    subprocess.run(command, env=soak.environ(), check=True, capture_output=True)
    plan: list[tuple[str, list[str], float]] = [(str(model), [], 30.0)] * count
    return finished(soak, f"{count} omni serve", plan)


def finished(soak: Soak, part: str, plan: list[tuple[str, list[str], float]]) -> Row:
    began = time.monotonic()
    code = soak.start(plan).wait()
    if code:
        print((soak.records / "pytest.log").read_text(errors="replace")[-4000:])
    return soak.row(part, began, "passed" if code == 0 else f"RED, exit {code}")


def kill(soak: Soak, number: int, chance: random.Random) -> Row:
    """Start a pytest with many servers and end it at a random moment."""
    sent = SIGNALS[number % len(SIGNALS)]
    plan = [stub(chance.randrange(1000)) for _ in range(200)]
    moment = chance.uniform(0.2, 4.0)
    began = time.monotonic()
    outer = soak.start(plan, SOAK_STAY_S=str(chance.choice((0, 0.5))))
    time.sleep(moment)
    outer.send_signal(sent)
    try:
        ended = f"exit {outer.wait(timeout=PYTEST_ENDS_S)}"
    except subprocess.TimeoutExpired:
        outer.kill()
        ended = f"RED, still running after {PYTEST_ENDS_S:g} s ({outer.wait()})"
    return soak.row(f"{sent.name} at {moment:.2f} s", began, ended)


def stub(number: int) -> tuple[str, list[str], float]:
    """Return model, flags and stop_timeout of one cycle."""
    deaf, stray = number % 5 == 4, number % 7 == 6
    flags = [*(["--deaf"] if deaf else []), *(["--stray"] if stray else [])]
    return ("two" if number % 4 == 3 else "one"), flags, 0.2 if deaf else 30.0


def report(found: list[Row]) -> None:
    print(f"{'part':<22} {'seconds':>8}  {'pytest':<12} {'pids':>5}  left behind")
    for row in found:
        left = "; ".join(
            f"{name}: {value}"
            for name in ("processes", "ports", "locks", "files")
            if (value := getattr(row, name))
        )
        print(f"{row.part:<22} {row.seconds:>8.1f}  {row.ended:<12} {row.servers:>5}  {left or 'nothing'}")


def _user() -> str:
    import getpass

    return getpass.getuser()


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_held(path: Path) -> bool:
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


if __name__ == "__main__":
    sys.exit(main())
