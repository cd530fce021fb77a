"""The upload of a report, against agents that are shell scripts."""

from __future__ import annotations

import hashlib
import os

import psutil
import pytest

from omni_ci.coverage import upload as uploads
from omni_hardware.processes import is_alive

NAME = "coverage-z_image-offline-0190.xml.gz"
HOLDS_IT = f"sha1sum {NAME} | cut -d' ' -f1"


@pytest.fixture
def upload(tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "SEARCH_AFTER_S", (0.0, 0.0))
    report = tmp_path / NAME
    report.write_bytes(b"a report")
    said: list[str] = []

    def run(script: str, *, mode: int = 0o755) -> tuple[str | None, str]:
        agent = tmp_path / "bin/buildkite-agent"
        agent.parent.mkdir()
        agent.write_text(script, encoding="utf-8")
        agent.chmod(mode)
        environ = {"PATH": os.pathsep.join([str(agent.parent), "/usr/bin", "/bin"])}
        problem = uploads.upload(NAME, folder=tmp_path, environ=environ, say=said.append)
        return problem, "\n".join(said)

    return run


def agent(*, upload: str = "exit 0", search: str = HOLDS_IT) -> str:
    return f'#!/bin/sh\nif [ "$2" = search ]; then\n{search}\nelse\n{upload}\nfi\n'


def test_an_upload_counts_when_the_search_finds_these_bytes(upload):
    problem, said = upload(agent(upload="echo 'at your service\x1b[0m'"))
    assert problem is None
    assert "at your service[0m" in said
    assert f"the build has {NAME}, SHA-1 {hashlib.sha1(b'a report').hexdigest()}" in said


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (agent(upload="echo sorry; exit 7"), "buildkite-agent artifact upload exited 7"),
        (agent(upload="exit 0", search="exit 0"), f"its search finds no artifact {NAME} with SHA-1 "),
        (agent(search="echo da39a3ee5e6b4b0d3255bfef95601890afd80709"), "its search finds no artifact"),
        (agent(search="echo 401 >&2; exit 1"), "buildkite-agent artifact search exited 1"),
        (
            "#!/no/such/interpreter\n",
            "buildkite-agent artifact upload cannot be run: No such file or directory",
        ),
        ("\x7fELF of another machine", "buildkite-agent artifact upload cannot be run: Exec format error"),
    ],
    ids=[
        "refused",
        "silent",
        "another file of that name",
        "no answer",
        "no interpreter",
        "wrong architecture",
    ],
)
def test_agent619_an_agent_is_not_believed_by_its_exit_code(upload, script, text):
    problem, _ = upload(script)
    assert problem is not None
    assert problem.startswith(f"upload of {NAME} failed: ")
    assert text in problem
    assert "\n" not in problem


def test_what_the_agent_printed_is_shown_when_it_fails(upload):
    assert "no such token" in upload(agent(upload="echo 'no such token'; exit 1"))[1]


def test_a_search_that_fails_once_is_asked_again(upload, tmp_path):
    once = f"[ -f {tmp_path}/asked ] || {{ touch {tmp_path}/asked; exit 1; }}\n{HOLDS_IT}"
    assert upload(agent(search=once))[0] is None


def test_a_report_that_is_gone_is_said(tmp_path):
    problem = uploads.upload(NAME, folder=tmp_path, environ={}, say=print)
    assert problem == f"{tmp_path / NAME} is gone, so it was not uploaded"


@pytest.mark.process
def test_an_agent_that_hangs_is_ended_with_all_that_it_started(upload, monkeypatch, tmp_path):
    monkeypatch.setattr(uploads, "UPLOAD_WITHIN_S", 0.5)
    problem, said = upload(agent(upload=f"echo begun\nsleep 300 & echo $! > {tmp_path}/pid\nwait"))
    assert problem == f"upload of {NAME} failed: buildkite-agent artifact upload was not done after 0.5 s"
    assert "begun" in said
    pid = int((tmp_path / "pid").read_text())
    assert not [process for process in psutil.process_iter() if process.pid == pid and is_alive(process)]
