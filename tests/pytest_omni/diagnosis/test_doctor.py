"""`pytest --omni-doctor`: the screen, its findings, and the probe child whose coverage it looks for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from omni_hardware.errors import InputError
from omni_hardware.inventory import Inventory
from pytest_omni.diagnosis import coverage_probe, doctor, doctor_checks
from pytest_omni.diagnosis.coverage_probe import CHILD_LINES, Result
from pytest_omni.diagnosis.doctor import Finding, State
from pytest_omni.machine import Machine

TWO = {
    "schema": 1,
    "platform": "cuda",
    "driver": "580.95",
    "error": None,
    "devices": [
        {"index": 0, "uuid": "GPU-0", "sku": "H100", "memory_mib": 81559, "used_mib": 310, "mig": None},
        {"index": 1, "uuid": "GPU-1", "sku": None, "memory_mib": None, "used_mib": None, "mig": None},
    ],
}
MEASURED = '\n[tool.coverage.run]\npatch = ["subprocess", "_exit"]\nsigterm = true\n'


def add(project, text):
    path = project.path / "pyproject.toml"
    path.write_text(path.read_text() + text)


def test_one_screen_and_exit_0_where_nothing_stands_in_the_way(armed, inner, monkeypatch):
    add(armed, MEASURED)
    (armed.path / "two.json").write_text(json.dumps(TWO))
    armed.makepyfile("def test_it(): raise AssertionError\n")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    plugins = ("pytest_omni.plugin", "pytest_shard.pytest_shard", "xdist.plugin")
    result = inner(
        "--omni-doctor", "--omni-inventory=two.json", "-m", "cuda", "--run-level=full_model", plugins=plugins
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "pytest-omni doctor: nothing stands in the way",
            "project     ✓ armed by pyproject.toml [[]tool.omni]; pytest-omni *, pytest *",
            "platform    ✓ cuda (-m names cuda); devices H100 (CUDA_VISIBLE_DEVICES=0 of 2; from file two.json)",
            "devices     ✓ 0  H100  GPU-0  79.6 GiB, 0.3 GiB of it in use",
            "            ✓ 1  unknown model  GPU-1  (hidden by a variable)*",
            "probe       · none: the devices are those of two.json",
            "visibility  ✓ CUDA_VISIBLE_DEVICES='0'",
            "run level   ✓ full_model (--run-level)*",
            "settings    ✓ --run-level full_model (on the command line)",
            "            ✓ --omni-inventory two.json (on the command line)",
            "plugins     ✓ pytest-shard *, pytest-xdist *",
            "coverage    ✓ a child process that SIGTERM stopped left all its 6 lines (coverage *, core *)",
            "```json",
        ]
    )
    text = result.stdout.str()
    assert "test session starts" not in text
    assert len(text.splitlines()) < 40
    block = re.search(r"```json\n(.*?)\n```", text, re.DOTALL)
    shown = json.loads(block[1])
    assert shown["devices"][0]["uuid"] == "GPU-0"
    # the block is a file that the option takes
    (armed.path / "again.json").write_text(block[1])
    assert "H100" in inner("--omni-inventory=again.json", "--co", "-q", "-v").stdout.str()


def test_problems_exit_3_and_say_what_to_do(armed, inner, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    result = inner("--omni-doctor", "-m", "cuda")
    assert result.ret == 3
    result.stdout.fnmatch_lines(
        [
            "pytest-omni doctor: * problems",
            "platform    ✓ cuda (-m names cuda), detected cpu; devices none",
            "            · no cuda device is here: what needs one is skipped, and fails under --omni-strict",
            "            ✗ rocm: HIP_VISIBLE_DEVICES=1 and CUDA_VISIBLE_DEVICES=2 differ*",
            "            ✗ pytest-shard is not loaded: there is no --num-shards*",
            "              → add -p pytest_shard.pytest_shard to addopts*",
            "            · plugin autoload is off (PYTEST_DISABLE_PLUGIN_AUTOLOAD)*",
        ]
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_project_that_is_not_armed_is_told_so(pytester, inner, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\n")
    result = inner("--omni-doctor", plugins=("pytest_omni.plugin", "pytest_shard.pytest_shard"))
    assert result.ret == 3
    result.stdout.fnmatch_lines(
        [
            "pytest-omni doctor: * problem*",
            "*armed by --omni-doctor*",
            "*✗ nothing but this look arms the plugin*",
            "*→ add the line [[]tool.omni[]] to*",
        ]
    )
    flagged = inner(
        "--omni-doctor", "--omni-strict", plugins=("pytest_omni.plugin", "pytest_shard.pytest_shard")
    )
    flagged.stdout.fnmatch_lines(
        ["*· other runs here are not armed: nothing says [[]tool.omni[]]; add the line [[]tool.omni[]] to*"]
    )
    # an ini key of ours stands for every run
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nomni_platform = 'cpu'\n")
    by_ini = inner("--omni-doctor", plugins=("pytest_omni.plugin", "pytest_shard.pytest_shard"))
    by_ini.stdout.fnmatch_lines(["*armed by omni_platform in pyproject.toml*"])
    by_ini.stdout.no_fnmatch_line("*not armed*")


def test_a_mistyped_marker_is_found_and_any_terminal_can_show_it(armed, inner, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("COLUMNS", "200")
    result = inner("--omni-doctor", "-m", "core_modle or theirs or fresh_process")
    assert result.ret == 3
    said = " ".join(" ".join(result.outlines).split())
    assert (
        "-m x 'core_modle or theirs or fresh_process': column 1: no marker is called 'core_modle' (did you"
        in said
    )
    assert said.count("no marker is called") == 1
    assert not result.stderr.str()


def test_what_an_encoding_lacks_is_written_in_other_signs():
    assert doctor.printable("✓ π", "utf-8") == "✓ π"
    assert doctor.printable("✓ π", "ascii") == "+ \\u03c0"


def problems(found):
    return [row.text for row in found if row.state is State.PROBLEM]


@pytest.mark.parametrize(
    ("inventory", "state", "words"),
    [
        (Inventory("cpu"), State.NOTE, "no cuda device is here: what needs one is skipped"),
        (Inventory("cuda", error="NVML: driver mismatch"), State.PROBLEM, "NVML: driver mismatch"),
        (
            Inventory.from_json({**TWO, "visible": {"variable": "CUDA_VISIBLE_DEVICES", "value": ""}}),
            State.PROBLEM,
            "none of the 2 devices is seen",
        ),
    ],
)
def test_what_is_here_is_held_against_what_is_asked_for(inventory, state, words):
    found = list(doctor_checks.platform_findings(Machine("cuda", "-m names cuda", inventory)))
    assert any(row.state is state and words in row.text for row in found)


def test_contradicting_variables_are_a_problem_and_mended_ones_a_note():
    environ = {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2", "ASCEND_RT_VISIBLE_DEVICES": "1,0"}
    found = list(doctor_checks.variable_findings(environ, Inventory("cpu")))
    assert "HIP_VISIBLE_DEVICES='1'" in found[0].text
    assert any("rocm" in text for text in problems(found))
    assert any(row.state is State.NOTE and "0,1" in row.remedy for row in found)
    assert problems(doctor_checks.variable_findings({}, Inventory("cpu"))) == []


def test_a_check_that_cannot_be_made_is_a_problem_of_its_own(pytestconfig):
    def broken(_):
        raise InputError("no such thing")

    def refused(_):
        raise pytest.UsageError("bad setting")

    checks = [doctor_checks.Check("one", broken), doctor_checks.Check("two", refused)]
    found = list(doctor.findings(pytestconfig, checks))
    assert [(row.topic, row.text, row.state) for row in found] == [
        ("one", "no such thing", State.PROBLEM),
        ("two", "bad setting", State.PROBLEM),
    ]


def test_the_screen_names_a_topic_once_and_folds_long_lines():
    found = [Finding("plugins", "a " * 30), Finding("plugins", "bad", State.PROBLEM, "do --this-and-that")]
    lines = list(doctor.screen(found, width=50, color=False))
    assert lines[0] == "pytest-omni doctor: 1 problem"
    assert max(map(len, lines)) <= 50
    assert sum("plugins" in line for line in lines) == 1
    assert "              → do --this-and-that" in lines
    assert "\x1b[1;31m✗\x1b[0m bad" in "\n".join(doctor.screen(found, width=80, color=True))


# --- coverage of a child ---------------------------------------------------------------------------------------------


def config(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    return tmp_path


@pytest.fixture
def unmeasured(monkeypatch):
    """The probe measures by itself: what measures the outer run must not start in its processes."""
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        monkeypatch.delenv(name)


def test_pytest_cov715_a_stopped_child_is_measured_and_its_lines_are_checked(tmp_path, unmeasured):
    result = coverage_probe.run(config(tmp_path, MEASURED))
    assert result.lines == CHILD_LINES
    assert result.settings["sigterm"] is True
    assert result.used in {"ctrace", "sysmon", "pytrace"}
    (fine,) = coverage_probe.judge(result, asked=True)
    assert fine.state is State.FINE
    assert result.used in fine.text


@pytest.mark.parametrize(
    "text",
    ["", '[tool.coverage.run]\npatch = ["subprocess"]\n', "[tool.coverage.run]\nsigterm = true\n"],
)
def test_pytest_cov715_a_setting_that_is_missing_is_found_by_what_is_lost(tmp_path, unmeasured, text):
    result = coverage_probe.run(config(tmp_path, text))
    assert result.lines == frozenset()
    (lost,) = coverage_probe.judge(result, asked=True)
    assert lost.state is State.PROBLEM
    assert "nothing recorded of a child process that SIGTERM stopped" in lost.text
    assert "sigterm = true" in lost.remedy
    (unasked,) = coverage_probe.judge(result, asked=False)
    assert unasked.state is (State.PROBLEM if text else State.NOTE)


def test_pytest_cov715_an_environment_that_somebody_cleans_loses_the_child(tmp_path, unmeasured, monkeypatch):
    # stands for a wrapper around the child: coverage's own variable is gone when the child looks for it
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nunset COVERAGE_PROCESS_CONFIG\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(
        coverage_probe, "PARENT", coverage_probe.PARENT.replace("[sys.executable,", f"[{str(wrapper)!r},")
    )
    result = coverage_probe.run(config(tmp_path, MEASURED))
    assert result.lines == frozenset()
    assert "COVERAGE_PROCESS_CONFIG" in coverage_probe.remedy(result)


GOOD = {"patch": ["subprocess"], "sigterm": True}


@pytest.mark.parametrize(
    ("result", "remedy"),
    [
        (Result(version="7.9.2", settings=GOOD), "coverage 7.9.2 knows no `patch`"),
        (Result(version="7.17.5", settings={"patch": ["_exit"], "sigterm": True}), "patch = "),
        (Result(version="7.17.5", settings={**GOOD, "sigterm": False}), "sigterm = true"),
        (Result(version="7.10.7", settings=GOOD, pth=False), ".pth file is not in site-packages"),
        (Result(version="7.17.5", settings=GOOD, exit=-9), "had to be killed"),
        (Result(version="7.17.5", settings=GOOD, exit=-15), "COVERAGE_PROCESS_CONFIG"),
    ],
)
def test_the_first_thing_that_is_missing_is_named(result, remedy):
    assert remedy in coverage_probe.remedy(result)


def test_coveragepy2076_a_core_that_cannot_be_used_is_told_and_aborts_nothing(tmp_path, unmeasured):
    root = config(tmp_path, MEASURED + 'core = "sysmon"\nbranch = true\n')
    result = coverage_probe.run(root)
    found = list(coverage_probe.judge(result, asked=True))
    if result.used == "sysmon":  # from Python 3.14 on it measures branches too
        assert [row.state for row in found] == [State.FINE]
    else:
        assert [row.state for row in found] == [State.FINE, State.NOTE]
        assert "core = 'sysmon' is asked for and cannot be used here" in found[1].text
    # coverage 7.11.1 and 7.11.2 end with an error instead
    (stopped,) = coverage_probe.judge(
        Result(lines=frozenset(), failed="Can't use core=sysmon: sys.monitoring isn't available"), asked=True
    )
    assert stopped.state is State.PROBLEM
    assert "COVERAGE_CORE out" in stopped.remedy


def test_a_config_that_coverage_refuses_is_one_line(tmp_path, unmeasured):
    result = coverage_probe.run(config(tmp_path, '[tool.coverage.run]\ncore = "sismon"\n'))
    (stopped,) = coverage_probe.judge(result, asked=True)
    assert stopped.state is State.PROBLEM
    assert "sismon" in stopped.text
    assert "\n" not in stopped.text
    (tmp_path / ".coveragerc").write_text("[run]\nsource = x\n[paths\n")
    broken = coverage_probe.run(tmp_path)  # a line that continues another does not stand alone
    assert re.match(r"Couldn't read config file .*\[line +3\]: '\[paths", broken.failed)


def test_the_screen_needs_no_terminal_plugin(armed, inner):
    result = inner("--omni-doctor", "-p", "no:terminal")
    result.stdout.fnmatch_lines(["pytest-omni doctor: *", "platform *"])


def test_without_coverage_nothing_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(coverage_probe.importlib.util, "find_spec", lambda _: None)
    (note,) = coverage_probe.judge(coverage_probe.run(tmp_path), asked=False)
    assert (note.state, note.remedy) == (State.NOTE, "pip install 'pytest-omni[cov]'")


def test_a_probe_that_hangs_is_given_up(monkeypatch, tmp_path):
    def never(*_, **__):
        raise subprocess.TimeoutExpired("coverage", 60)

    monkeypatch.setattr(coverage_probe.subprocess, "run", never)
    (stopped,) = coverage_probe.judge(coverage_probe.run(tmp_path), asked=False)
    assert stopped.state is State.PROBLEM
    assert "no answer in 60 s" in stopped.text
