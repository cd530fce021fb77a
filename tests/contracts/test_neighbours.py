"""The plugin beside the plugins that people have installed already: autoload on, one neighbour a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

STUB = Path(__file__).resolve().parents[1] / "pytest_omni" / "stub_server.py"
HANG_GUARD_S = 120.0
NEIGHBOURS = ("asyncio", "pytest_cov", "randomly", "rerunfailures", "timeout", "xdist")

CONFTEST = f"""
import sys

def pytest_omni_server_command(config, params, port):
    return [sys.executable, {str(STUB)!r}, "--port", str(port), "--pids", "pids.txt", *params.server_args]
"""
HEAD = """
import pathlib, urllib.request
import pytest
from pytest_omni import OmniServerParams

served = pytest.mark.parametrize("omni_server", [OmniServerParams("stub")], ids=["stub"], indirect=True)

def get(server):
    return urllib.request.urlopen(server.url, timeout=5).status
"""


class Project:
    """A small armed project in a folder, and its runs."""

    def __init__(self, folder: Path, neighbour: str) -> None:
        self.folder = folder
        self._others = [word for name in NEIGHBOURS if name != neighbour for word in ("-p", f"no:{name}")]
        self.write("pyproject.toml", "[tool.omni]\n")
        self.write("conftest.py", CONFTEST)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = ("-p", "no:cacheprovider", *self._others, "--omni-report", "report.json", *arguments)
        outer = ("PYTEST_", "COV_", "COVERAGE_", "OMNI_")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
        environ.pop("CI", None)
        return subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=HANG_GUARD_S,
            check=False,
        )

    def states(self) -> dict[str, str]:
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        names = [item["id"] for item in report["items"]]
        assert len(names) == len(set(names)), "an item stands in the report twice"
        return {item["id"]: item["state"] for item in report["items"]}

    def servers(self) -> list[int]:
        return [int(line) for line in (self.folder / "pids.txt").read_text(encoding="utf-8").split()]


@pytest.fixture
def beside(tmp_path):
    return lambda neighbour: Project(tmp_path, neighbour)


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 50
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(psutil.pid_exists, pids))


def test_xdist_one_server_a_module_and_every_item_once_in_the_report(beside):
    project = beside("xdist")
    for name in ("a", "b"):
        tests = "".join(
            f"@served\ndef test_{number}(omni_server): assert get(omni_server) == 200\n"
            for number in range(3)
        )
        project.write(f"test_{name}.py", HEAD + tests)
    project.write("test_gpu.py", HEAD + "@pytest.mark.cuda\ndef test_card(): pass\n")
    done = project.run("-n2", "--dist", "loadgroup")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(project.servers()) == 2
    states = project.states()
    assert sorted(states.values()) == ["deselected", *["passed"] * 6]
    assert gone(project.servers())


def test_cov_the_server_child_is_recorded(beside):
    project = beside("pytest_cov")
    project.write(
        "pyproject.toml",
        "[tool.omni]\n[tool.coverage.run]\npatch = ['subprocess']\nsigterm = true\nsource = ['app']\n",
    )
    project.write(
        "app.py",
        "import http.server, sys\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n",
    )
    project.write(
        "conftest.py",
        "import sys\ndef pytest_omni_server_command(config, params, port):\n"
        "    return [sys.executable, 'app.py', str(port)]\n",
    )
    project.write("test_a.py", HEAD + "@served\ndef test_a(omni_server): assert get(omni_server) == 200\n")
    done = project.run("--cov", "--cov-report=term")
    assert done.returncode == 0, done.stdout + done.stderr
    # every line but the headers' end is run in the child only
    line = next(line for line in done.stdout.splitlines() if line.startswith("app.py"))
    assert line.split()[-1] == "100%"
    report = json.loads((project.folder / "report.json").read_text(encoding="utf-8"))
    assert [server["coverage"] for server in report["servers"]] == ["recorded"]


def test_asyncio_a_coroutine_test_talks_to_the_server(beside):
    project = beside("asyncio")
    project.write(
        "test_a.py",
        HEAD + "import asyncio\n@served\n@pytest.mark.asyncio\nasync def test_a(omni_server):\n"
        "    assert await asyncio.to_thread(get, omni_server) == 200\n"
        "@pytest.mark.asyncio\n@pytest.mark.cuda\nasync def test_card(): pass\n",
    )
    done = project.run(
        "-m", "cuda or not cuda", "--omni-platform", "cuda", "-W", "ignore::pytest.PytestDeprecationWarning"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.states() == {"test_a.py::test_a[stub]": "passed", "test_a.py::test_card": "skipped"}
    assert gone(project.servers())


@pytest.mark.process
@pytest.mark.parametrize("method", ["thread", "signal"])
def test_pytest_timeout134_no_method_leaves_a_server(beside, method):
    project = beside("timeout")
    project.write(
        "test_a.py",
        HEAD + "import time\n@served\ndef test_a(omni_server):\n    get(omni_server)\n    time.sleep(600)\n",
    )
    # the call alone is timed: the server is there by then, however slow it was
    limit = ("--timeout", "1", "--override-ini=timeout_func_only=true")
    done = project.run(*limit, "--timeout-method", method)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Timeout" in done.stdout + done.stderr
    assert gone(project.servers())


def test_rerunfailures_a_flaky_test_keeps_its_server_and_stands_once_in_the_report(beside):
    project = beside("rerunfailures")
    project.write(
        "test_a.py",
        HEAD + "@served\ndef test_a(omni_server):\n    assert get(omni_server) == 200\n"
        "    tries = pathlib.Path('tries.txt')\n"
        "    tries.write_text(tries.read_text() + 'x' if tries.exists() else 'x')\n"
        "    assert len(tries.read_text()) == 2\n"
        "@served\ndef test_b(omni_server): assert get(omni_server) == 200\n",
    )
    done = project.run("--reruns", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rerun" in done.stdout
    assert project.states() == {"test_a.py::test_a[stub]": "passed", "test_a.py::test_b[stub]": "passed"}
    assert len(project.servers()) == 1
    assert gone(project.servers())


def test_randomly_two_shards_with_different_seeds_still_run_every_test_once(beside):
    project = beside("randomly")
    names = [f"test_{number}" for number in range(12)]
    for module in ("a", "b", "c"):
        project.write(f"test_{module}.py", "".join(f"def {name}(): pass\n" for name in names))
    ran: list[str] = []
    for shard, seed in enumerate(("1", "2")):
        done = project.run("--num-shards", "2", "--shard-id", str(shard), "--randomly-seed", seed)
        assert done.returncode == 0, done.stdout + done.stderr
        states = project.states()
        assert len(states) == 36
        ran += [name for name, state in states.items() if state == "passed"]
    assert len(ran) == len(set(ran)) == 36
