"""`omni-ci upload` where things go wrong or are large: a network that fails, a retried job, too many jobs, no step."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PIPELINE = ".buildkite/cuda/test-ready.yml"
# Each call is one line of the log; meta-data lives in a folder, and `plan` says how each kind of call ends.
AGENT = """#!/usr/bin/env python3
import json, pathlib, sys
here = pathlib.Path({here!r})
words = sys.argv[1:]
with (here / "log").open("a") as log:
    log.write(json.dumps(words) + "\\n")
ends = json.loads((here / "ends").read_text())
kind = words[0] if words[0] != "meta-data" else f"meta-data {{words[1]}}"
if words[0] == "pipeline" and ends.get("taken"):
    # Buildkite has the steps, and only the answer is lost
    (here / "steps").open("a").write(words[-1] + "\\n")
if ends.get(kind):
    code, said = ends[kind].pop(0)
    (here / "ends").write_text(json.dumps(ends))
    if code:
        sys.stderr.write(said)
        sys.exit(code)
if words[0] == "annotate":
    (here / "annotation").write_text(sys.stdin.read())
if kind == "meta-data get":
    mark = here / "data" / words[2]
    print(mark.read_text() if mark.exists() else words[words.index("--default") + 1])
if kind == "meta-data set":
    (here / "data" / words[2]).write_text(words[3])
"""


class Agent:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        path = folder / "buildkite-agent"
        path.write_text(AGENT.format(here=str(folder)), encoding="utf-8")
        path.chmod(0o755)
        self.ends()

    def ends(self, *, taken: bool = False, **kinds: list[tuple[int, str]]) -> None:
        """Say how the next calls of each kind end; *taken*: Buildkite has the steps however an upload ends."""
        (self.folder / "ends").write_text(json.dumps({**kinds, "taken": taken}))

    def calls(self) -> list[list[str]]:
        """Return the calls since the last time."""
        log = self.folder / "log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def kinds(self) -> list[str]:
        return [" ".join(call[: 2 if call[0] in {"meta-data", "pipeline"} else 1]) for call in self.calls()]

    @property
    def uploads(self) -> int:
        """How often Buildkite took the steps while *taken* was said."""
        steps = self.folder / "steps"
        return len(steps.read_text(encoding="utf-8").splitlines()) if steps.exists() else 0

    @property
    def annotation(self) -> str:
        return (self.folder / "annotation").read_text(encoding="utf-8")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Any) -> Agent:
    monkeypatch.setattr("omni_ci.output.uploading._PAUSES", (0, 0))
    made = Agent(tmp_path / "agent")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/local/bin:/usr/bin:/bin")
    return made


def in_a_job(monkeypatch: pytest.MonkeyPatch, *, retry: int) -> None:
    monkeypatch.setenv("BUILDKITE_STEP_ID", "0190-step")
    monkeypatch.setenv("BUILDKITE_JOB_ID", f"job-{retry}")
    monkeypatch.setenv("BUILDKITE_RETRY_COUNT", str(retry))


@pytest.mark.parametrize(
    "said",
    [
        "POST https://agent…: 503 Service Unavailable",
        "POST https://agent…: 429 Too Many Requests",
        "POST https://agent…: too many requests",
        "POST https://agent…: Service Unavailable",
        "dial tcp: lookup agent.buildkite.com: no such host",
        "dial tcp 10.0.0.1:443: i/o timeout",
        "connect: connection refused",
        "net/http: TLS handshake timeout",
        "WARN POST: 503 (Attempt 1/2)\nfatal: POST: dial tcp 10.0.0.1:443: connection refused",
    ],
)
def test_an_upload_that_buildkite_has_nothing_of_is_tried_again(
    scratch: Any, agent: Agent, said: str
) -> None:
    agent.ends(pipeline=[(1, said), (1, said)])
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0, ran.err
    assert agent.kinds() == ["pipeline upload"] * 3 + ["annotate", "artifact"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "POST https://agent…: read: connection reset by peer"),
        (
            1,
            "POST https://agent…: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
        (1, "unexpected EOF"),
        (1, "read tcp 10.0.0.2:5555->10.0.0.1:443: i/o timeout"),
        (1, "POST: 502 Bad Gateway"),
        (1, "POST: 500"),
        (1, "POST: Internal Server Error"),
        (1, "POST: bad gateway"),
        (1, "WARN POST: EOF (Attempt 1/2)\nfatal: POST: dial tcp 10.0.0.1:443: connection refused"),
        (1, ""),
        (137, "connection refused"),
    ],
)
def test_a_lost_answer_is_no_lost_upload(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    """Buildkite has the steps: a second call would run the keyless ones twice, and be refused for the keys."""
    in_a_job(monkeypatch, retry=0)
    agent.ends(taken=True, pipeline=[(code, said)])
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert f"pipeline upload ended with {code}, and Buildkite may have taken it all the same" in ran.err
    assert said in ran.err
    assert agent.kinds() == ["meta-data set", "pipeline upload"]
    in_a_job(monkeypatch, retry=1)
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "pipeline.yml may be uploaded already" in ran.err
    assert "Look at the build" in ran.err
    assert agent.kinds() == ["meta-data get"]
    assert agent.uploads == 1


def test_an_agent_that_never_answers_may_have_uploaded(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_job(monkeypatch, retry=0)
    monkeypatch.setattr("omni_ci.output.uploading._SECONDS", 2)
    path = agent.folder / "buildkite-agent"
    text = path.read_text(encoding="utf-8")
    hang = 'import time\nif words[0] == "pipeline":\n    time.sleep(60)\n'
    path.write_text(text.replace("ends = ", f"{hang}ends = "), encoding="utf-8")
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "buildkite-agent pipeline gave no answer within 2 s" in ran.err
    path.write_text(text, encoding="utf-8")
    in_a_job(monkeypatch, retry=1)
    assert "pipeline.yml may be uploaded already" in scratch.run("upload", PIPELINE, "--all").err


@pytest.mark.parametrize("said", ["422 Unprocessable Entity: key already taken", "connection refused"])
def test_a_retry_uploads_what_buildkite_has_nothing_of(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    in_a_job(monkeypatch, retry=0)
    agent.ends(pipeline=[(1, said)] * 3)
    assert scratch.run("upload", PIPELINE, "--all").code == 4
    agent.ends()
    in_a_job(monkeypatch, retry=1)
    agent.calls()
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0, ran.err
    assert agent.kinds()[:4] == ["meta-data get", "meta-data set", "pipeline upload", "meta-data set"]


def test_a_network_that_stays_away_ends_with_four(scratch: Any, agent: Agent) -> None:
    agent.ends(pipeline=[(1, "connection refused")] * 9)
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "buildkite-agent pipeline upload ended with 1" in ran.err
    assert "connection refused" in ran.err
    assert agent.kinds() == ["pipeline upload"] * 3


@pytest.mark.parametrize(
    "said",
    ["422 Unprocessable Entity: key already taken", "pipeline contains values interpolated from secrets"],
)
def test_what_buildkite_refused_is_not_tried_again(scratch: Any, agent: Agent, said: str) -> None:
    agent.ends(pipeline=[(1, said)])
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert said in ran.err
    assert agent.kinds() == ["pipeline upload"]


def test_annotation_and_artifact_are_tried_again(scratch: Any, agent: Agent) -> None:
    agent.ends(annotate=[(1, "no")], artifact=[(1, "no"), (1, "no")])
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0
    assert "warning" not in ran.err
    assert agent.kinds() == ["pipeline upload", "annotate", "annotate", "artifact", "artifact", "artifact"]


def test_an_agent_that_a_signal_ended_is_told_so(scratch: Any, agent: Agent) -> None:
    path = agent.folder / "buildkite-agent"
    text = path.read_text(encoding="utf-8")
    dies = 'import os\nif words[0] == "artifact":\n    os.kill(os.getpid(), 9)\n'
    path.write_text(text.replace("ends = ", f"{dies}ends = "), encoding="utf-8")
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0
    assert "selection.json was not kept as an artifact: buildkite-agent was ended by signal 9" in ran.err
    agent.calls()
    path.write_text(
        text.replace("ends = ", f"{dies.replace('artifact', 'pipeline')}ends = "), encoding="utf-8"
    )
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "pipeline upload was ended by signal 9, and Buildkite may have taken it" in ran.err
    assert agent.kinds().count("pipeline upload") == 1


def test_a_retried_job_does_not_upload_its_steps_twice(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_job(monkeypatch, retry=0)
    assert scratch.run("upload", PIPELINE, "--all").code == 0
    mark = "omni-ci-uploaded-cuda-test-ready-0190-step-1"
    calls = agent.calls()
    assert [call[0] for call in calls] == ["meta-data", "pipeline", "meta-data", "annotate", "artifact"]
    assert calls[0] == ["meta-data", "set", mark, "started"]
    assert calls[2][:3] == ["meta-data", "set", mark]
    assert re.fullmatch(r"[0-9a-f]{64}", calls[2][3])
    in_a_job(monkeypatch, retry=1)
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0
    assert "an earlier attempt of this job has uploaded pipeline.yml already" in ran.err
    calls = agent.calls()
    # the annotation has the same context, so that it takes the earlier one's place
    assert [call[0] for call in calls] == ["meta-data", "annotate", "artifact"]
    assert calls[1][1:3] == ["--context", "omni-ci-cuda-test-ready"]


def test_a_retry_of_a_job_that_had_not_come_to_uploading_uploads(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_job(monkeypatch, retry=2)
    assert scratch.run("upload", PIPELINE, "--all").code == 0
    assert agent.kinds() == [
        "meta-data get", "meta-data set", "pipeline upload", "meta-data set", "annotate", "artifact",
    ]  # fmt: skip


def test_a_retry_that_cannot_know_uploads_nothing(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_job(monkeypatch, retry=1)
    agent.ends(**{"meta-data get": [(1, "401 Unauthorized")] * 9})
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 4
    assert "it is not known whether an earlier attempt of this job has uploaded" in ran.err
    assert agent.kinds() == ["meta-data get"] * 3


def test_a_mark_that_was_not_taken_is_a_warning(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_job(monkeypatch, retry=0)
    agent.ends(**{"meta-data set": [(1, "no")] * 9})
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0
    assert (
        "warning: a retry of this job would upload once more: the build's meta-data was not taken" in ran.err
    )
    assert ran.err.count("warning") == 1


@pytest.mark.parametrize(
    ("upload", "code", "said"),
    [
        (
            (0, ""),
            0,
            "warning: a retry of this job would end with 4, not knowing what became of pipeline.yml",
        ),
        ((1, "422"), 4, "warning: a retry of this job would not upload: the build's meta-data was not taken"),
    ],
)
def test_a_second_mark_that_was_not_taken_is_a_warning(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch, upload: tuple[int, str], code: int, said: str
) -> None:
    in_a_job(monkeypatch, retry=0)
    agent.ends(pipeline=[upload], **{"meta-data set": [(0, ""), *[(1, "no")] * 3]})
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == code
    assert said in ran.err


def steps(count: int, more: str = "") -> str:
    rows = "".join(
        f"  - {{label: s{at}, key: s{at}, agents: {{queue: cpu}}, timeout_in_minutes: 5, commands: [make]{more if at else ''}}}\n"
        for at in range(count)
    )
    return f"steps:\n{rows}"


def test_more_than_five_hundred_jobs_go_in_several_uploads(
    scratch: Any, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_job(monkeypatch, retry=0)
    scratch.write({PIPELINE: steps(1201, ", depends_on: s0")})
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code == 0, ran.err
    uploads = [call for call in agent.calls() if call[0] == "pipeline"]
    assert [Path(call[-1]).name for call in uploads] == ["pipeline-1.yml", "pipeline-2.yml", "pipeline-3.yml"]
    documents = [yaml.safe_load(Path(call[-1]).read_text(encoding="utf-8"))["steps"] for call in uploads]
    assert [len(one) for one in documents] == [500, 500, 201]
    assert [step["key"] for one in documents for step in one] == [f"s{at}" for at in range(1201)]
    # a retry takes up where the earlier attempt ended
    (agent.folder / "data/omni-ci-uploaded-cuda-test-ready-0190-step-2").unlink()
    in_a_job(monkeypatch, retry=1)
    scratch.run("upload", PIPELINE, "--all")
    assert [Path(call[-1]).name for call in agent.calls() if call[0] == "pipeline"] == ["pipeline-2.yml"]
    # and a smaller selection leaves no part of the larger one behind
    scratch.run("upload", PIPELINE, "--only", "s0")
    assert sorted(path.name for path in (scratch.root / ".omni-ci/cuda-test-ready").iterdir()) == [
        "pipeline.yml", "selection.json",
    ]  # fmt: skip


def test_generate_writes_one_part_at_a_time(scratch: Any) -> None:
    scratch.write({PIPELINE: steps(501)})
    ran = scratch.run("generate", PIPELINE, "--all")
    assert ran.code == 2
    assert "has 2 parts; `omni-ci upload` sends them all, --part 1 to --part 2 writes one" in ran.err
    assert ran.out == ""
    made = scratch.run("generate", PIPELINE, "--all", "--part", "2")
    assert [step["key"] for step in yaml.safe_load(made.out)["steps"]] == ["s500"]
    assert "--part 3: there are 2 parts" in scratch.run("generate", PIPELINE, "--all", "--part", "3").err


def test_a_key_that_stands_twice_is_found_across_parts(scratch: Any, agent: Agent) -> None:
    scratch.write({PIPELINE: steps(501) + "  - {label: x, key: s0, agents: {queue: q}, commands: [x]}\n"})
    ran = scratch.run("upload", PIPELINE, "--all")
    assert ran.code in {2, 3}
    assert "s0" in ran.err
    assert agent.kinds() == []


@pytest.mark.parametrize("how", [["--changed", "README.md"], ["--e2e"]])
def test_kibana268212_nothing_to_run_uploads_nothing(scratch: Any, agent: Agent, how: list[str]) -> None:
    """All children of a group filtered away: the empty group was uploaded, and the build refused."""
    ran = scratch.run("upload", PIPELINE, *how)
    assert ran.code == 0
    assert "nothing selected, so there is nothing to upload" in ran.err
    assert agent.kinds() == ["annotate", "artifact"]
    assert "nothing selected, so nothing is uploaded" in agent.annotation


def test_monorepo_diff83_a_group_without_steps_is_left_out_of_what_is_uploaded(
    scratch: Any, agent: Agent
) -> None:
    """One group filtered to nothing beside another that runs: it must not be there at all, nor `- {}` for it."""
    scratch.run("upload", PIPELINE, "--changed", "docs/index.md")
    document = yaml.safe_load(
        (scratch.root / ".omni-ci/cuda-test-ready/pipeline.yml").read_text(encoding="utf-8")
    )
    assert [step["key"] for step in document["steps"]] == ["docs"]
    assert "group &#x27;GPU&#x27; is left out: none of its steps runs" in agent.annotation


def test_a_stored_selection_is_uploaded_as_it_was(scratch: Any, agent: Agent) -> None:
    scratch.run("upload", PIPELINE, "--changed", "docs/index.md")
    stored = ".omni-ci/cuda-test-ready/selection.json"
    text = (scratch.root / stored).read_text(encoding="utf-8")
    ran = scratch.run("upload", PIPELINE, "--from", stored)
    assert ran.code == 0, ran.err
    assert (scratch.root / stored).read_text(encoding="utf-8") == text
