"""`omni-ci cov split` on small projects: real pytest, real coverage, and an agent that is a shell script."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFIG = """
[tool.pytest.ini_options]
markers = ["core_model", "cpu", "cuda"]
addopts = ["--strict-markers"]
filterwarnings = ["error"]
[tool.coverage.run]
source = ["lib"]
patch = ["subprocess", "_exit"]
sigterm = true
concurrency = ["multiprocessing", "thread"]
"""
LIBRARY = {
    "lib/__init__.py": "",
    "lib/engine/__init__.py": "",
    "lib/engine/core.py": "def double(x):\n    return 2 * x\n",
    "lib/serving/__init__.py": "",
    "lib/serving/app.py": "def handle(x):\n    return {'answer': x}\n",
}
MARKS = "import pytest\npytestmark = [pytest.mark.core_model, pytest.mark.cpu]\n"
OFFLINE = MARKS + "def test_double():\n    from lib.engine.core import double\n    assert double(2) == 4\n"
# The handler runs in a child process, as a server does.
ONLINE = (
    MARKS + "import subprocess, sys\ndef test_handle():\n"
    "    subprocess.run([sys.executable, '-c', 'from lib.serving.app import handle; handle(1)'], check=True)\n"
)
HALVES = ("--offline", "tests/test_offline.py", "--online", "tests/test_online.py")
CHOSEN = ("--", "-m", "core_model and cpu")
# Asked to search, it holds what lies in the folder.
AGENT = """#!/bin/sh
if [ "$2" = search ]; then sha1sum "$5" | cut -d' ' -f1; exit; fi
echo "$PWD: $*" >> {log}
{body}
"""


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root.parent / "bin"
        self.agent_log = root.parent / "agent.log"
        self.write({"pyproject.toml": CONFIG, **LIBRARY})
        self.write({"tests/test_offline.py": OFFLINE, "tests/test_online.py": ONLINE})

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def agent(self, body: str = "exit 0") -> None:
        self.bin.mkdir(exist_ok=True)
        agent = self.bin / "buildkite-agent"
        agent.write_text(AGENT.format(log=self.agent_log, body=body), encoding="utf-8")
        agent.chmod(0o755)

    def environ(self, **extra: str) -> dict[str, str]:
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("BUILDKITE", "COV", "PYTEST"))
        }
        # as on a machine without the agent, unless the test brings one
        path = os.pathsep.join([str(self.bin), "/usr/bin", "/bin"])
        return {**inherited, "PATH": path, "PYTHONPATH": ".", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **extra}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "omni_ci", "cov", "split", *arguments]

    def split(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environ(**environ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def reports(self) -> list[str]:
        return sorted(path.name for path in self.root.glob("**/coverage-*"))


BUILDKITE = {"BUILDKITE": "true", "BUILDKITE_STEP_ID": "0190-step"}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


def test_each_half_has_its_own_report_and_they_stay_on_disk_outside_buildkite(project):
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.reports() == [
        "coverage-z_image-offline-local.xml.gz",
        "coverage-z_image-online-local.xml.gz",
    ]
    assert (
        "offline: coverage-z_image-offline-local.xml.gz (kept on disk, not inside Buildkite)" in done.stdout
    )
    offline = gzip.decompress((project.root / "coverage-z_image-offline-local.xml.gz").read_bytes())
    assert b'filename="engine/core.py"' in offline
    # header: no name, no time, so equal reports are equal files
    raw = (project.root / "coverage-z_image-offline-local.xml.gz").read_bytes()
    assert raw[3] == 0
    assert raw[4:8] == bytes(4)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["lib/engine", "2/2", "0/2"] in rows
    assert ["lib/serving", "0/2", "2/2"] in rows
    assert ["offline", "1", "0", "0", "2/4", "(50%)"] in rows
    assert not list(project.root.glob(".coverage*"))


def test_the_folder_of_the_reports_can_be_named(project):
    done = project.split("--model-id", "z_image", *HALVES, "--reports", "out/cov", *CHOSEN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((project.root / "out/cov").glob("coverage-*.xml.gz"))) == 2


def test_inside_buildkite_each_report_is_uploaded_after_its_half_under_its_plain_name(project):
    project.agent('[ -f "$3" ] && echo "uploading $3"')
    done = project.split("--model-id", "z_image", *HALVES, "--reports", "out", *CHOSEN, **BUILDKITE)
    assert done.returncode == 0, done.stdout + done.stderr
    out = project.root / "out"
    assert project.agent_log.read_text().splitlines() == [
        f"{out}: artifact upload coverage-z_image-offline-0190-step.xml.gz",
        f"{out}: artifact upload coverage-z_image-online-0190-step.xml.gz",
    ]
    first_upload = done.stdout.index("uploading coverage-z_image-offline")
    assert first_upload < done.stdout.index("--- online half")
    assert "online: out/coverage-z_image-online-0190-step.xml.gz (uploaded)" in done.stdout


def test_a_parallel_job_has_its_number_in_the_name(project):
    project.agent()
    done = project.split(
        "--model-id", "z_image", *HALVES[:2], *CHOSEN, **BUILDKITE, BUILDKITE_PARALLEL_JOB="3"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.reports() == ["coverage-z_image-offline-0190-step-3.xml.gz"]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("#!/bin/sh\nexit 7\n", "buildkite-agent artifact upload exited 7"),
        ("#!/no/such/shell\n", "buildkite-agent artifact upload cannot be run: No such file or directory"),
    ],
    ids=["refused", "cannot be run"],
)
def test_an_upload_that_failed_fails_the_step_after_both_halves(project, script, text):
    project.agent()
    (project.bin / "buildkite-agent").write_text(script)
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN, **BUILDKITE)
    assert done.returncode == 1
    assert f"online: upload of coverage-z_image-online-0190-step.xml.gz failed: {text}" in done.stdout
    assert "(kept on disk, it was not uploaded)" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_half_that_executed_no_test_uploads_nothing_though_its_imports_cover_lines(project):
    project.agent()
    skipped = MARKS + "import lib.engine.core\ndef test_x():\n    pytest.skip('4 cards')\n"
    project.write({"tests/test_online.py": skipped})
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN, **BUILDKITE)
    assert done.returncode == 5
    assert ["online", "0", "1", "5", "1/4", "(25%)"] in [line.split() for line in done.stdout.splitlines()]
    assert "artifact upload coverage-z_image-offline" in project.agent_log.read_text()
    assert "artifact upload coverage-z_image-online" not in project.agent_log.read_text()


def test_a_threshold_that_was_missed_is_no_failed_test(project):
    done = project.split("--model-id", "z_image", *HALVES[:2], *CHOSEN, "--cov-fail-under=99")
    assert done.returncode == 1
    assert "exit 1: offline: no test failed, but pytest exited 1" in done.stdout


def test_a_set_up_that_failed_is_a_failed_test(project):
    broken = MARKS + "@pytest.fixture\ndef broken():\n    assert 0\ndef test_x(broken):\n    pass\n"
    project.write({"tests/test_offline.py": OFFLINE + broken})
    done = project.split("--model-id", "z_image", *HALVES[:2], *CHOSEN)
    assert "exit 1: offline: tests failed" in done.stdout


def test_agent1099_a_failed_upload_does_not_hide_the_tests_own_code(project):
    project.agent("exit 7")
    project.write(
        {"tests/test_online.py": MARKS + "import os\ndef test_dies():\n    os.kill(os.getpid(), 9)\n"}
    )
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN, **BUILDKITE)
    assert done.returncode == 137
    assert "online: ended by SIGKILL" in done.stdout


def test_both_halves_run_and_keep_their_codes_when_the_first_fails(project):
    project.write({"tests/test_offline.py": OFFLINE + "def test_no():\n    assert 0\n"})
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN)
    assert done.returncode == 1
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["offline", "2", "0", "1", "2/4", "(50%)"] in rows
    assert ["online", "1", "0", "0", "2/4", "(50%)"] in rows
    assert len(project.reports()) == 2


@pytest.mark.parametrize(
    ("online", "because"),
    [
        (MARKS.replace("cpu", "cuda") + "def test_x():\n    pass\n", "online: no test was selected"),
        (
            MARKS + "@pytest.mark.skipif(True, reason='4 cards')\ndef test_x():\n    pass\n"
            "def test_y():\n    pytest.skip('no weights')\n",
            "online: no test was executed (2 skipped)",
        ),
    ],
    ids=["nothing selected", "everything skipped"],
)
def test_a_half_without_an_executed_test_is_five(project, online, because):
    project.write({"tests/test_online.py": online})
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN)
    assert done.returncode == 5, done.stdout + done.stderr
    assert because in done.stdout


def test_a_green_half_that_measured_nothing_is_not_green(project):
    project.write({"tests/test_online.py": MARKS + "def test_x():\n    pass\n"})
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN)
    assert done.returncode == 1
    assert "online: coverage-z_image-online-local.xml.gz covers no line" in done.stdout


def test_equal_coverage_of_both_halves_is_pointed_out(project):
    project.write({"tests/test_online.py": OFFLINE})
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN)
    assert done.returncode == 0
    assert "both halves cover exactly the same lines" in done.stdout


def test_stale_reports_of_both_modes_are_gone_before_the_first_test(project):
    stale = [
        f"coverage-z_image-{mode}-local.xml{end}" for mode in ("offline", "online") for end in ("", ".gz")
    ]
    project.write(dict.fromkeys((*stale, "coverage-other-online-local.xml.gz"), "old"))
    done = project.split("--model-id", "z_image", *HALVES[:2], *CHOSEN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.reports() == [
        "coverage-other-online-local.xml.gz",
        "coverage-z_image-offline-local.xml.gz",
    ]


def test_an_expected_failure_and_the_callers_own_junit_file_are_respected(project):
    project.write(
        {"tests/test_offline.py": OFFLINE + "@pytest.mark.xfail\ndef test_not_yet():\n    assert 0\n"}
    )
    done = project.split("--model-id", "z_image", *HALVES[:2], *CHOSEN, "--junitxml", "mine.xml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.root / "mine.xml").is_file()
    assert ["offline", "2", "0", "0", "2/4", "(50%)"] in [line.split() for line in done.stdout.splitlines()]


def test_workers_are_counted_once(project):
    done = project.split("--model-id", "z_image", *HALVES[:2], *CHOSEN, "-p", "xdist", "-n", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ["offline", "1", "0", "0", "2/4", "(50%)"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--model-id"], "--model-id requires an argument"),
        (["--model-id", *HALVES], "--model-id requires an argument"),
        ([*HALVES], "--model-id"),
        (["--model-id", "Z-Image", *HALVES], "did you mean 'z_image'?"),
        (["--model-id", "z_image"], "at least one --offline PATH or --online PATH"),
        (["--model-id", "z_image", "--ofline", "tests"], "--offline"),
        (
            ["--model-id", "z_image", *HALVES, "--reports", "pyproject.toml"],
            "--reports pyproject.toml: cannot be a folder",
        ),
        (["--model-id", "z_image", *HALVES, "--reports", ""], "--reports '': names no folder"),
        (["--model-id", "z_image", "--offline", ""], "--offline '': names no file or folder"),
        (["--model-id", "z_image", *HALVES, "--online", "::test_x"], "--online '::test_x': names no file"),
        (["--model-id", "z_image", *HALVES, "extra"], "unexpected argument 'extra'"),
        (["--model-id", "z_image", *HALVES, "--empty-offline"], "--empty-offline"),
        (["--model-id", "z_image", *HALVES, "-m", "cpu"], "Arguments for the child go after `--`"),
        (
            ["--model-id", "z_image", "--offline", "tests/test_ofline.py", "--online", "no/where.py::test_x"],
            (
                "--offline tests/test_ofline.py: no such file or folder (did you mean 'tests/test_offline.py'?)\n"
                "--online no/where.py::test_x: no such file or folder"
            ),
        ),
    ],
)
def test_wrong_arguments_are_one_message_and_nothing_runs(project, arguments, text):
    done = project.split(*arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert project.reports() == []


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        (BUILDKITE, "buildkite-agent is not on PATH inside Buildkite"),
        ({"BUILDKITE": "true"}, "BUILDKITE_STEP_ID is not set"),
    ],
)
def test_a_report_that_could_not_be_uploaded_is_refused_before_any_test(project, environ, text):
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN, **environ)
    assert done.returncode == 125
    assert text in done.stderr
    assert done.stdout == ""


def test_without_pytest_cov_nothing_runs_and_the_install_line_is_given(project):
    # a finder that hides pytest-cov, as in an environment without the `cov` extra
    project.write(
        {
            "hide/sitecustomize.py": "import importlib.util as u\nfind = u.find_spec\n"
            "u.find_spec = lambda name, *rest: None if name == 'pytest_cov' else find(name, *rest)\n"
        }
    )
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN, PYTHONPATH=f"{project.root}/hide")
    assert done.returncode == 125
    assert "pip install 'pytest-omni[cov]'" in done.stderr
    assert done.stdout == ""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_running_half_and_no_other_half_starts(project, number):
    slow = MARKS + (
        "import pathlib, signal, time\n"
        "heard = []\n"
        "def test_slow():\n"
        "    for number in (signal.SIGTERM, signal.SIGINT):\n"
        "        signal.signal(number, lambda number, frame: heard.append(str(int(number))))\n"
        "    pathlib.Path('started').touch()\n"
        "    while not heard:\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.5)\n"
        "    pathlib.Path('heard').write_text(' '.join(heard))\n"
        "    pytest.exit('told to stop', returncode=2)\n"
    )
    project.write({"tests/test_offline.py": slow})
    child = subprocess.Popen(
        project.command("--model-id", "z_image", *HALVES, *CHOSEN),
        cwd=project.root,
        env=project.environ(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not (project.root / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # to the whole group, as an agent or a terminal does: the half must still hear it once
    os.killpg(child.pid, number)
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 128 + number
    assert (project.root / "heard").read_text().split() == [str(int(number))]
    assert "online: not run" in output
    assert f"exit {128 + number}: interrupted by {signal.Signals(number).name}" in output
    assert "--- online half" not in output


def test_the_counts_are_plain_json(project, tmp_path):
    tally = tmp_path / "tally.json"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "omni_ci.coverage.tally", "tests/test_offline.py"],
        cwd=project.root,
        env=project.environ(OMNI_CI_TALLY=str(tally)),
        check=True,
        capture_output=True,
    )
    assert json.loads(tally.read_text()) == {"executed": 1, "skipped": 0, "failed": 0}


def test_coveragepy2076_a_core_that_this_python_lacks_neither_warns_nor_aborts(project):
    # warnings are errors in this project: coverage's own about the core would end the run
    project.write({"pyproject.toml": CONFIG + 'core = "sysmon"\nbranch = true\n'})
    done = project.split("--model-id", "z_image", *HALVES, *CHOSEN, COVERAGE_CORE="sysmon")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no-sysmon" not in done.stdout + done.stderr
    assert f"coverage core {'sysmon' if sys.version_info >= (3, 14) else 'ctrace'}: " in done.stdout
    assert len(project.reports()) == 2
