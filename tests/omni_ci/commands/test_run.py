"""`omni-ci run` in real repositories: real commands, logs, JUnit, and devices from a file."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest

FILE = ".buildkite/cuda/test-ready.yml"
INVENTORY = {
    "schema": 1,
    "platform": "cuda",
    "devices": [{"index": n, "uuid": f"GPU-{n}", "sku": "L4", "memory_mib": 23034} for n in range(2)],
}


def step(key: str, command: str, more: str = "") -> str:
    lines = [
        f"  - label: {key.title()}",
        f"    key: {key}",
        "    timeout_in_minutes: 5",
        f"    commands:\n      - {json.dumps(command)}",
        *(f"    {line}" for line in more.splitlines()),
    ]
    return "\n".join(lines)


def pipeline(*steps: str, env: str = "") -> dict[str, str]:
    return {FILE: f"{env}steps:\n" + "\n".join(steps) + "\n"}


@pytest.fixture
def here(scratch):
    """The scratch repository, with a file that says that two L4 are here."""
    (scratch.root.parent / "two.json").write_text(json.dumps(INVENTORY))
    scratch.two = ("--inventory", str(scratch.root.parent / "two.json"))
    return scratch


def log(scratch, name: str) -> str:
    return (scratch.root / ".omni-run" / name).read_text()


def test_the_selected_steps_run_in_order_with_a_log_each(here):
    here.commit(
        pipeline(
            step("second", "cat made", "depends_on: first"),
            step("first", "echo made by first > made"),
        )
    )
    done = here.run("run", "--all", FILE)
    assert done.code == 0, done.out
    assert log(here, "02-cuda-test-ready-second.log").endswith("made by first\n")
    assert done.out.index("run: " + FILE + "#first") < done.out.index("run: " + FILE + "#second")
    assert "(no device, after .buildkite/cuda/test-ready.yml#first)" in done.out
    assert "    $ cat made" in done.out
    assert done.out.rstrip().endswith(f"exit 0; logs and junit.xml are in {here.root}/.omni-run")
    assert here.git("status", "--porcelain") == "?? made"


def test_a_dry_run_shows_the_commands_and_runs_nothing(here):
    here.commit(pipeline(step("one", "touch ran"), step("two", "cd a\ntouch b")))
    done = here.run("run", "--all", "--dry-run", FILE)
    assert done.code == 0
    assert "    $ touch ran" in done.out
    assert "    $ cd a\n      touch b\n" in done.out
    assert not (here.root / "ran").exists()
    assert not (here.root / ".omni-run").exists()


def test_only_selected_steps_run(here):
    here.commit()
    done = here.run("run", "--changed", "nothing/here", "--", FILE)
    assert done.code == 0
    assert "nothing selected, so there is nothing to run" in done.err
    done = here.run("run", "--only", "docs", "--dry-run", FILE)
    assert "#docs" in done.out
    assert "#engine" not in done.out


def test_a_step_for_other_hardware_is_not_run_and_says_why(here):
    here.commit(pipeline(step("gpu", "touch ran", "mirror_hardwares: l4_4"), step("cpu", "true")))
    done = here.run("run", "--all", FILE, *here.two)
    assert done.code == 0
    assert f"not here: {FILE}#gpu: needs cuda L4×4, sees L4×2" in done.out
    assert "exit 0; 1 of 2 not run" in done.out
    assert not (here.root / "ran").exists()


def test_no_step_that_can_run_here_is_a_guard_and_not_green(here):
    here.commit(pipeline(step("gpu", "touch ran", "mirror_hardwares: l4_4")))
    done = here.run("run", "--all", FILE, *here.two)
    assert done.code == 125
    assert "no selected step can run on this machine, so nothing was run" in done.err


def test_steps_side_by_side_have_devices_of_their_own(here):
    show = 'echo "$CUDA_VISIBLE_DEVICES" > {name}; for i in $$(seq 100); do [ -e {other} ] && exit 0; sleep 0.1; done; exit 1'
    here.commit(
        pipeline(
            step("a", show.format(name="a", other="b"), "mirror_hardwares: l4_1"),
            step("b", show.format(name="b", other="a"), "mirror_hardwares: l4_1"),
            step("none", 'echo "$$CUDA_VISIBLE_DEVICES" > none'),
        ).copy()
    )
    here.edit(FILE, "$CUDA", "$$CUDA")
    done = here.run("run", "--all", "--jobs", "3", FILE, *here.two)
    assert done.code == 0, done.out
    assert {(here.root / name).read_text() for name in "ab"} == {"0\n", "1\n"}


def test_a_step_without_a_preset_sees_no_device(here):
    here.commit(pipeline(step("cpu", '[ "$$CUDA_VISIBLE_DEVICES" = -1 ]')))
    assert here.run("run", "--all", FILE, *here.two).code == 0


def test_a_failed_dependency_keeps_its_dependents_from_running(here):
    here.commit(
        pipeline(
            step("a", "exit 3"),
            step("b", "touch ran-b", "depends_on: a"),
            step("c", "touch ran-c", "depends_on: b"),
            step("d", "touch ran-d", "depends_on: [{step: a, allow_failure: true}]"),
            step("e", "touch ran-e"),
        )
    )
    done = here.run("run", "--all", FILE)
    assert done.code == 3
    assert [(here.root / f"ran-{name}").exists() for name in "bcde"] == [False, False, True, True]
    assert f"not run: {FILE}#b: it waits for {FILE}#a, which failed with 3" in done.out
    assert f"not run: {FILE}#c: it waits for {FILE}#b, which was not run" in done.out


def test_a_failing_step_shows_the_end_of_its_log(here):
    here.commit(pipeline(step("a", "echo what went wrong; exit 4")))
    done = here.run("run", "--all", FILE)
    assert done.code == 4
    assert "    | what went wrong" in done.out
    assert "failed 4: .buildkite/cuda/test-ready.yml#a: item 1, failed" in done.out


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [("exit 5", "exit 2", 2), ("exit 5", "true", 5), ("exit 7", "exit 2", 7), ("kill -9 $$$$", "true", 137)],
)
def test_the_code_is_the_first_real_failure_else_5(here, first, second, code):
    here.commit(pipeline(step("a", first), step("b", second)))
    assert here.run("run", "--all", FILE).code == code


@pytest.mark.parametrize(
    ("soft", "code"),
    [
        ("true", 0),
        ("[{exit_status: 3}]", 0),
        ('[{exit_status: "*"}]', 0),
        ("[{exit_status: 4}]", 3),
        ("false", 3),
    ],
)
def test_a_soft_failure_fails_nothing_and_is_said(here, soft, code):
    here.commit(pipeline(step("a", "exit 3", f"soft_fail: {soft}"), step("b", "touch ran", "depends_on: a")))
    done = here.run("run", "--all", FILE)
    assert done.code == code
    assert (here.root / "ran").exists() is (code == 0)
    assert ("failed 3 (soft)" in done.out) is (code == 0)


def test_shards_run_each_with_its_number(here):
    command = 'echo "$$BUILDKITE_PARALLEL_JOB/$$BUILDKITE_PARALLEL_JOB_COUNT" >> shards'
    here.commit(pipeline(step("a", command, "parallelism: 2"), step("b", "cat shards", "depends_on: a")))
    done = here.run("run", "--all", FILE)
    assert done.code == 0, done.out
    assert (here.root / "shards").read_text() == "0/2\n1/2\n"
    assert f"{FILE}#a [2/2]" in done.out


def test_variables_are_filled_in_as_upload_would(here):
    here.commit(
        pipeline(
            step("a", 'echo "$BUILDKITE_COMMIT $LEVEL $$OWN ${UNSET:-none}" > said', "env: {OWN: mine}"),
            env="env: {LEVEL: core}\n",
        )
    )
    here.run("run", "--all", FILE)
    assert (here.root / "said").read_text() == f"{here.git('rev-parse', 'HEAD')} core mine none\n"


def test_a_command_that_upload_would_refuse_is_an_error_with_its_place(here):
    here.commit(pipeline(step("a", "echo ${#X}")))
    done = here.run("run", "--all", FILE)
    assert done.code == 2
    assert f"{FILE}:2: step 'A': the agent would refuse" in done.err


def test_what_buildkite_alone_can_do_is_said(here):
    text = (
        'steps:\n  - label: A\n    key: a\n    commands: ["true"]\n    if: build.branch == "main"\n'
        "  - label: M\n    key: m\n    commands: [echo]\n    matrix: [a, b]\n"
        '  - label: S\n    key: s\n    commands: [echo]\n    skip: "broken today"\n'
        "  - trigger: other\n    key: t\n"
        "  - block: Go?\n    key: go\n"
        "  - label: Z\n    key: z\n    commands: [echo]\n"
    )
    here.commit({FILE: text})
    done = here.run("run", "--all", FILE)
    assert done.code == 0, done.err
    assert "note: `if:` is not asked here" in done.out
    assert f"not here: {FILE}#m: its `matrix:` is expanded by Buildkite only" in done.out
    assert f"not here: {FILE}#s: it says `skip:`: broken today" in done.out
    assert f"not here: {FILE}#t: a trigger step has no commands" in done.out
    assert "is a gate for people; here nothing waits for them" in done.err


def test_a_skipped_step_is_done_for_those_that_wait_for_it(here):
    """As for Buildkite; what it waited for itself is still waited for."""
    here.commit(
        pipeline(
            step("first", "sleep 0.3; touch made"),
            step("off", "false", "depends_on: first\nskip: true"),
            step("by-key", "test -e made", "depends_on: off"),
            "  - wait",
            step("by-place", "test -e made"),
            '  - group: Off\n    skip: flaky\n    steps: [{label: I, key: inside, commands: ["false"]}]',
        )
    )
    done = here.run("run", "--all", "--jobs", "4", FILE)
    assert done.code == 0, done.out + done.err
    assert f"not here: {FILE}#off: it says `skip:`" in done.out
    assert f"not here: {FILE}#inside: its group says `skip:`: flaky" in done.out
    assert f"passed: {FILE}#by-key" in done.out
    assert f"passed: {FILE}#by-place" in done.out


def test_a_circle_is_an_error_before_anything_runs(here):
    here.commit(pipeline(step("a", "touch ran", "depends_on: b"), step("b", "true", "depends_on: a")))
    done = here.run("run", "--all", FILE)
    assert done.code == 2
    assert "wait for each other in a circle" in done.err
    assert not (here.root / "ran").exists()


def test_junit_has_a_case_an_item_and_the_log_of_a_failure(here):
    here.commit(
        pipeline(
            step("a", "true").replace(
                '- "true"', '- "true"\n      - "echo \'a & <oops>\'; exit 3"\n      - "true"'
            ),
            step("b", "true", "depends_on: a"),
        )
    )
    here.run("run", "--all", FILE)
    root = ET.parse(here.root / ".omni-run/junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "1", "2")
    first, second = root
    assert next(case.get("name") for case in first) == "1: true"
    failure = first[1][0]
    assert "a & <oops>" in failure.text
    assert (failure.tag, failure.get("message")) == (
        "failure",
        "exit 3, failed; ended the shell with status 3",
    )
    assert first[2][0].get("message") == "not run"
    assert second[0][0].get("message") == f"it waits for {FILE}#a, which failed with 3"


def test_an_earlier_runs_logs_are_gone_and_a_folder_of_others_is_left_alone(here):
    here.commit(pipeline(step("a", "true")))
    here.run("run", "--all", FILE)
    (here.root / ".omni-run/99-old.log").write_text("x")
    here.run("run", "--all", FILE)
    assert sorted(path.name for path in (here.root / ".omni-run").iterdir()) == [
        ".gitignore", "01-cuda-test-ready-a.log", "junit.xml",
    ]  # fmt: skip
    done = here.run("run", "--all", FILE, "--out", "src")
    assert done.code == 2
    assert "is a folder with other files in it" in done.err


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("--jobs", "0"), "--jobs 0: must be 1 or more"),
        (("--out", ""), "--out '': names no folder"),
        (("--inventory", "gone.json"), "gone.json: the inventory cannot be read"),
    ],
)
def test_a_wrong_argument_is_2(here, tokens, said):
    here.commit(pipeline(step("a", "touch ran")))
    done = here.run("run", "--all", FILE, *tokens)
    assert done.code == 2
    assert said in done.err
    assert not (here.root / "ran").exists()


def test_a_step_that_takes_too_long_is_ended(here, monkeypatch):
    monkeypatch.setattr("omni_ci.local.jobs._MINUTE_S", 0.1)
    here.commit(pipeline(step("a", "sleep 60")))
    done = here.run("run", "--all", FILE)
    assert done.code == 124
    assert "item 1, timed out" in done.out


@pytest.mark.process
def test_ctrl_c_ends_every_tree_and_the_report_is_still_written(here):
    here.commit(
        pipeline(
            step("a", "echo $$$$ > pid-a; sleep 60; true"),
            step("b", "echo $$$$ > pid-b; sleep 60; true"),
            step("c", "touch ran", "depends_on: a"),
        )
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "omni_ci", "run", "--all", "--jobs", "2", FILE],
        cwd=here.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    pids = [here.root / f"pid-{name}" for name in "ab"]
    deadline = time.monotonic() + 60
    while not all(path.exists() and path.read_text() for path in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=30)
    assert child.returncode == 130, out
    assert "the run was ended by SIGINT" in out
    assert (here.root / ".omni-run/junit.xml").exists()
    assert not any(psutil.pid_exists(int(path.read_text())) for path in pids)
    assert not (here.root / "ran").exists()


@pytest.mark.process
def test_a_terminal_has_a_line_that_is_rewritten_and_a_pipe_has_none(here):
    here.commit(pipeline(step("a", "sleep 0.6")))
    command = [sys.executable, "-m", "omni_ci", "run", "--all", FILE]
    piped = subprocess.run(command, cwd=here.root, capture_output=True, text=True, check=False)
    assert "\x1b" not in piped.stdout
    assert "now " not in piped.stdout
    main, other = os.openpty()
    child = subprocess.Popen(
        command, cwd=here.root, stdout=other, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}
    )
    os.close(other)
    shown = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(main)
    assert child.wait(timeout=30) == 0
    assert re.search(rb"\r\x1b\[2K0/1 done; now a \d+ s", shown)


def omni_ci(here, *tokens: str, stdout) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "omni_ci", *tokens]
    return subprocess.Popen(command, cwd=here.root, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_nothing_runs_where_the_commands_cannot_be_shown(here):
    here.commit(pipeline(step("a", "touch ran")))
    with Path("/dev/full").open("w") as full, omni_ci(here, "run", "--all", FILE, stdout=full) as child:
        _, err = child.communicate(timeout=60)
    assert child.returncode == 125
    assert "standard output cannot be written: No space left on device; nothing was run" in err
    assert not (here.root / "ran").exists()


def test_a_reader_that_leaves_ends_the_run(here):
    here.commit(pipeline(step("a", "true"), step("b", "sleep 60; touch ran", "depends_on: a")))
    with omni_ci(here, "run", "--all", FILE, stdout=subprocess.PIPE) as child:
        while child.stdout.readline() != "    $ sleep 60; touch ran\n":
            pass
        child.stdout.close()
        began = time.monotonic()
        assert child.wait(timeout=30) == 141
    assert time.monotonic() - began < 20
    assert not (here.root / "ran").exists()
    cases = [case.get("classname") for case in ET.parse(here.root / ".omni-run/junit.xml").iter("testcase")]
    assert cases == [f"{FILE}#a", f"{FILE}#b"]


def test_a_disk_that_is_full_later_hides_no_result(here, tmp_path):
    here.commit(pipeline(step("a", "true")))
    out = tmp_path / "out"
    code = f"""
import io, pathlib, sys
from omni_ci import cli
class Full(io.StringIO):
    def write(self, text):
        if "passed" in text:
            raise OSError(28, "No space left on device")
        return super().write(text)
    def fileno(self):
        return pathlib.Path({str(out)!r}).open("w").fileno()
sys.stdout = Full()
cli.main(["run", "--all", {FILE!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=here.root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    assert (
        "warning: standard output cannot be written: No space left on device; the results are in"
        in done.stderr
    )
    assert ET.parse(here.root / ".omni-run/junit.xml").getroot().get("failures") == "0"


def test_junit_is_xml_whatever_the_commands_print(here):
    hostile = '\x00\x01\x07\x08\x0b\x1b[31m\x7f\x9b]]> <&"\ufffe\uffff \U0001f600'
    here.commit(pipeline(step("a", "cat text; exit 3").replace("label: A", 'label: "a\\e]<&b"')))
    (here.root / "text").write_bytes(hostile.encode() + b"\xff\xfe\xed\xa0\x80\n")
    done = here.run("run", "--all", FILE)
    assert done.code == 3
    (failure,) = ET.parse(here.root / ".omni-run/junit.xml").iter("failure")
    assert ']]> <&"' in failure.text
    assert "\U0001f600" in failure.text
    assert not set(failure.text) & set("\x00\x01\x07\x08\x0b\x1b\ufffe\uffff")
