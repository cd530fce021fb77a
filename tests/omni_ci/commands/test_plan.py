"""`omni-ci plan` as people run it: every step, run or skip, and why."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from typing import Any

import pytest

PIPELINE = ".buildkite/cuda/test-ready.yml"


def test_a_changed_file_selects_its_step_and_both_say_why(scratch: Any) -> None:
    scratch.commit({"src/engine/core.py": "x = 2\n"})
    ran = scratch.run("plan")
    assert ran.code == 0
    run, skip, price, count = ran.out.splitlines()
    assert run.split()[:3] == ["run", f"{PIPELINE}#engine", "l4_1"]
    assert run.endswith("src/engine/core.py changed, under src/engine/")
    assert skip.split()[:3] == ["skip", f"{PIPELINE}#docs", "-"]
    assert skip.endswith("nothing changed under docs/")
    assert price == "GPU minutes: 30 run, 0 skip (timeouts for 1 step, so at most)"
    assert count.startswith("1 of 2 steps run, 1 skip; 1 changed file from ")


def test_json_is_selection_json_and_nothing_else(scratch: Any) -> None:
    head = scratch.commit({"docs/index.md": "# Bye\n"})
    ran = scratch.run("plan", PIPELINE, "--format", "json")
    document = json.loads(ran.out)
    assert document["schema"] == 1
    assert document["diff"]["head"] == head
    assert document["diff"]["files"] == ["docs/index.md"]
    assert [(step["key"], step["runs"]) for step in document["steps"]] == [("engine", False), ("docs", True)]
    assert document["steps"][0] == {
        "file": PIPELINE,
        "key": "engine",
        "label": "Engine",
        "group": "GPU",
        "runs": False,
        "because": "nothing changed under src/engine/",
        "rule": "prefix",
        "preset": "l4_1",
        "cards": 1,
        "jobs": 1,
        "minutes": 30,
        "minutes_from": "timeout",
        "depends_on": [],
    }


def test_base_and_head_are_compared(scratch: Any) -> None:
    first = scratch.git("rev-parse", "HEAD")
    second = scratch.commit({"src/engine/core.py": "x = 2\n"})
    scratch.commit({"docs/index.md": "# Bye\n"})
    keys = {
        step["key"]: step["runs"]
        for step in json.loads(scratch.run("plan", "--base", first, "--format", "json").out)["steps"]
    }
    assert keys == {"engine": True, "docs": True}
    ran = scratch.run("plan", "--base", first, "--head", second, "--format", "json")
    assert {step["key"]: step["runs"] for step in json.loads(ran.out)["steps"]} == {
        "engine": True,
        "docs": False,
    }
    assert "read from the working tree" in ran.err


@pytest.mark.parametrize(
    ("changed", "selected"),
    [
        (["src/engine/core.py"], ["engine"]),
        (["src/other.py"], []),
        (["docs/index.md", "src/engine/core.py"], ["engine", "docs"]),
        ([".buildkite/presets.yml"], ["engine"]),
        ([".buildkite/policy.yml"], []),
        ([PIPELINE], ["engine", "docs"]),
        (["tests/test_engine.py"], ["engine"]),
    ],
)
def test_listed_paths_need_no_git(scratch: Any, changed: list[str], selected: list[str]) -> None:
    ran = scratch.run("plan", "--changed", *changed, "--format", "json")
    assert [step["key"] for step in json.loads(ran.out)["steps"] if step["runs"]] == selected


def test_everything_on_request(scratch: Any) -> None:
    ran = scratch.run("plan", "--all")
    assert ran.out.splitlines()[-1] == "2 of 2 steps run, 0 skip; everything was asked for"


def test_a_typed_label_that_policy_does_not_map_is_told(scratch: Any) -> None:
    scratch.commit({".buildkite/policy.yml": "schema: 1\nlabels: {gpu: [GPU]}\n"})
    said = "--label gpuu: policy maps no such label (did you mean 'gpu'?)"
    assert said in scratch.run("plan", "--label", "gpuu").err
    assert "policy maps no such label" not in scratch.run("plan", "--label", "gpu").err


def test_a_label_of_the_pull_request_may_add_steps(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch.commit({".buildkite/policy.yml": "schema: 1\nlabels: {gpu: [GPU]}\n"})
    scratch.commit({"x": "1"})
    assert "1 of 2" in scratch.run("plan", "--label", "gpu").out
    monkeypatch.setenv("BUILDKITE_PULL_REQUEST_LABELS", "ready,gpu")
    assert "1 of 2" in scratch.run("plan").out


def test_outside_a_repository_everything_runs_and_that_is_said(scratch: Any) -> None:
    shutil.rmtree(scratch.root / ".git")
    ran = scratch.run("plan")
    assert ran.code == 0
    assert "2 of 2 steps run" in ran.out
    assert "the changes are unknown (not a git repository" in ran.out


def test_a_vanished_path_runs_its_step_and_says_so(scratch: Any) -> None:
    scratch.git("rm", "--quiet", "-r", "src/engine")
    scratch.commit()
    scratch.commit({"unrelated.txt": "x"})
    assert "it watches src/engine/, which does not exist" in scratch.run("plan").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.yml"], "nothing.yml: there is no such pipeline file"),
        ([".buildkite/cuda/test-redy.yml"], "did you mean '.buildkite/cuda/test-ready.yml'?"),
        (["--base", "main", "--changed", "x"], "--base/--head and --changed exclude each other"),
        (["--all", "--changed", "x"], "--changed and --all exclude each other"),
        (["--all", "--e2e"], "--all and --e2e exclude each other"),
        (["--changed", "../x"], "is outside the repository"),
        (["--presets", "no.yml"], "--presets no.yml: there is no such file"),
        (["--format", "xml"], "--format"),
        (["--changd", "x"], "--changd"),
    ],
)
def test_a_mistake_is_one_message_and_exit_two(scratch: Any, arguments: list[str], message: str) -> None:
    ran = scratch.run("plan", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


def test_an_unknown_base_runs_everything(scratch: Any) -> None:
    ran = scratch.run("plan", "--base", "mian")
    assert ran.code == 0
    assert "2 of 2 steps run" in ran.out
    assert "'mian' is not a commit in this clone (did you mean 'main'?)" in ran.out


def test_every_file_with_problems_is_named_at_once(scratch: Any) -> None:
    bad = "steps:\n  - {label: a, commnads: [x]}\n  - {label: b, commands: [x], mirror_hardware: l4_1}\n"
    scratch.write({".buildkite/cuda/test-merge.yml": bad, ".buildkite/amd/test-ready.yml": bad})
    ran = scratch.run("plan")
    assert ran.code == 2
    assert ran.err.count("did you mean 'commands'?") == 2
    assert ran.err.count("did you mean 'mirror_hardwares'?") == 2


def test_a_missing_preset_is_an_error_even_for_a_step_that_does_not_run(scratch: Any) -> None:
    scratch.edit(PIPELINE, "l4_1", "l4_3")
    ran = scratch.run("plan", "--changed", "nothing")
    assert ran.code == 2
    assert f"{PIPELINE}:4: step 'Engine': unknown preset 'l4_3'" in ran.err


def test_every_missing_preset_is_named_at_once(scratch: Any) -> None:
    scratch.edit(PIPELINE, "l4_1", "l4_3")
    scratch.edit(PIPELINE, "agents: {queue: cpu}", "mirror_hardwares: l5_1")
    ran = scratch.run("plan", "--all")
    assert ran.code == 2
    assert "step 'Engine': unknown preset 'l4_3'" in ran.err
    assert "step 'Docs': unknown preset 'l5_1'" in ran.err


def test_durations_replace_timeouts(scratch: Any) -> None:
    measured = '{"schema": 1, "steps": {"cuda/test-ready.yml#engine": {"minutes": 12.5}}}'
    scratch.write({".buildkite/durations.json": measured, "other.json": measured.replace("12.5", "7")})
    ran = scratch.run("plan", "--all")
    assert "GPU minutes: 12.5 run, 0 skip (measured for 1 step)" in ran.out
    ran = scratch.run("plan", "--all", "--durations", "other.json", "--format", "json")
    step = json.loads(ran.out)["steps"][0]
    assert (step["minutes"], step["minutes_from"], step["cards"]) == (7, "durations", 1)
    assert "--durations no.json: there is no such file" in scratch.run("plan", "--durations", "no.json").err


@pytest.mark.parametrize("output", ["markdown", "html"])
def test_a_file_named_like_a_tag_is_text_in_every_format(scratch: Any, output: str) -> None:
    name = "src/engine/<img src=x onerror=alert(1)>.py"
    scratch.commit({name: "x = 1\n"})
    ran = scratch.run("plan", "--format", output)
    assert ran.code == 0
    assert "<img" not in ran.out
    assert "&lt;img src=x onerror=alert(1)&gt;.py" in ran.out
    assert scratch.run("plan", "--format", output).out == ran.out


def test_without_pipelines_the_way_on_is_named(scratch: Any) -> None:
    shutil.rmtree(scratch.root / ".buildkite")
    ran = scratch.run("plan")
    assert ran.code == 2
    assert "start with `omni-ci init`" in ran.err


def test_a_pipeline_is_found_from_a_folder_below(scratch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scratch.root / "src")
    assert scratch.run("plan", PIPELINE).code == 0
    assert scratch.run("plan", "--changed", "engine/core.py").out.startswith("run ")


def test_control_characters_do_not_reach_the_terminal(scratch: Any) -> None:
    scratch.edit(PIPELINE, "key: docs", "key: docs\n    depends_on: []")
    scratch.edit(PIPELINE, "label: Docs", 'label: "Do\\e[31mcs\\a"')
    ran = scratch.run("plan", "--changed", "docs/\x1b[31m.md")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err


def on_a_terminal(scratch: Any, *arguments: str) -> str:
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "omni_ci", *arguments]
    with subprocess.Popen(command, stdout=follower, cwd=scratch.root, env=environment) as process:
        os.close(follower)
        chunks = []
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
        assert process.wait(60) == 0
    os.close(leader)
    return b"".join(chunks).decode()


def test_a_terminal_gets_a_table(scratch: Any) -> None:
    shown = on_a_terminal(scratch, "plan", "--all")
    assert "hardware" in shown
    assert "\x1b[" in shown
    assert "2 of 2 steps run" in shown


def test_planning_imports_neither_a_framework_nor_the_typed_classes(scratch: Any) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "omni_ci", "plan"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=scratch.root, check=True)
    imported = {
        line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line
    }
    assert not imported & {
        "torch",
        "diffusers",
        "transformers",
        "buildkite_sdk",
        "kubernetes_validate",
        "jsonschema",
    }
    assert "omni_ci" in imported
