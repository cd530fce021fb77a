"""What became of a server's coverage, from values; and once from a real server under a real coverage."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_omni.servers.child_coverage import STARTERS, Measuring, Recorded, data_files, judge, measuring

ON = {"COVERAGE_PROCESS_CONFIG": "x"}
HERE = Measuring(Path("/data/.coverage"), sigterm=True)


@pytest.mark.parametrize(
    ("env", "killed", "found", "files", "state", "because"),
    [
        (
            {},
            False,
            HERE,
            [".coverage.h.pid7.Xa"],
            Recorded.OFF,
            "has none of COVERAGE_PROCESS_CONFIG, COVERAGE_",
        ),
        ({"COVERAGE_PROCESS_START": ""}, False, None, [], Recorded.OFF, "has none of"),
        (ON, False, HERE, [".coverage.h.pid7.Xa"], Recorded.RECORDED, "a data file carries one of its pids"),
        (
            ON,
            False,
            HERE,
            [".coverage.h.pid77.Xa"],
            Recorded.LOST,
            "no data file of it beside /data/.coverage",
        ),
        (ON, True, HERE, [], Recorded.LOST, "it was killed before it could write its data"),
        # a child of it wrote, the root was killed: what there is counts
        (ON, True, HERE, [".coverage.h.pid8.Xa"], Recorded.RECORDED, "a data file"),
        (ON, True, None, [], Recorded.LOST, "it was killed"),
        (ON, False, None, [], Recorded.RECORDED, "it ended in order"),
        (
            ON,
            False,
            Measuring(Path("/data/.coverage"), sigterm=False),
            [],
            Recorded.LOST,
            "; `sigterm = true` in [tool.coverage.run] makes SIGTERM save it",
        ),
    ],
)
def test_what_became_of_it(env, killed, found, files, state, because):
    verdict = judge(env, killed=killed, pids={7, 8}, measuring=found, files=files)
    assert verdict.state is state
    assert because in verdict.because
    assert verdict.measuring is (found is not None)


def test_without_coverage_in_the_process_nobody_measures(monkeypatch):
    monkeypatch.delitem(sys.modules, "coverage", raising=False)
    assert measuring() is None
    assert data_files(None) == []


def test_data_files_lie_beside_the_sessions_own(tmp_path):
    for name in (".coverage", ".coverage.h.pid1.Xa", "other"):
        (tmp_path / name).touch()
    assert sorted(data_files(Measuring(tmp_path / ".coverage", sigterm=True))) == [
        ".coverage",
        ".coverage.h.pid1.Xa",
    ]


SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
CONFTEST = """
import os, sys
def pytest_omni_server_command(config, params, port):
    words = [sys.executable, "served.py", str(port)]
    return ["env", "-u", "COVERAGE_PROCESS_CONFIG", "-u", "COVERAGE_PROCESS_START", *words] if params.model == "lost" else words
"""
TESTS = """
import pytest
from pytest_omni import OmniServerParams
def serve(model, **env):
    params = OmniServerParams(model, health_path="/", env=env)
    return pytest.mark.parametrize("omni_server", [params], indirect=True, ids=[model])

@serve("recorded")
def test_recorded(omni_server): pass
@serve("lost")
def test_lost(omni_server): pass
@serve("off", COVERAGE_PROCESS_CONFIG="", COVERAGE_PROCESS_START="")
def test_off(omni_server): pass
"""


@pytest.mark.process
def test_a_real_servers_coverage_is_told(armed, inner, monkeypatch):
    for name in (*STARTERS, "COVERAGE_FILE", "COVERAGE_RCFILE"):
        monkeypatch.delenv(name, raising=False)
    armed.makeconftest(CONFTEST)
    armed.makepyfile(served=SERVER, test_it=TESTS)
    (armed.path / ".coveragerc").write_text("[run]\npatch = subprocess\nsigterm = true\nsource = .\n")
    result = inner(
        "--cov",
        "--cov-config=.coveragerc",
        "--omni-report=r.json",
        plugins=("pytest_cov", "pytest_omni.plugin"),
    )
    result.assert_outcomes(passed=3)
    servers = json.loads((armed.path / "r.json").read_text())["servers"]
    assert [(row["model"], row["coverage"]) for row in servers] == [
        ("recorded", "recorded"),
        ("lost", "lost"),
        ("off", "off"),
    ]
    result.stdout.re_match_lines_random(
        [
            r"the coverage of server for 'lost' \(pid \d+, log .*\) is lost: no data file of it beside .*",
            r"the server for 'off' was not measured: its environment has none of COVERAGE_PROCESS_CONFIG, .*",
        ]
    )
