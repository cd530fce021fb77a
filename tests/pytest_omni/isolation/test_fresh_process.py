"""Tests in a process of their own: real processes, real signals, a fake runtime."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import psutil
import pytest

from omni_hardware.errors import InputError
from pytest_omni.isolation import fresh_reports, fresh_run, fresh_spawn
from pytest_omni.isolation.fresh_run import End, Spec

HEAD = """
import os, pathlib, signal, sys, time
import pytest

OUTER = os.environ.setdefault("OUTER_PID", str(os.getpid()))
fresh = pytest.mark.fresh_process
forked = pytest.mark.fresh_process(method="fork")

def is_outer():
    return str(os.getpid()) == OUTER
"""

# Stands for torch: a runtime that is initialised by whoever calls init().
TORCH = """
class cuda:
    ready = False

    @classmethod
    def init(cls):
        cls.ready = True

    @classmethod
    def is_initialized(cls):
        return cls.ready
"""


@pytest.fixture
def project(armed, monkeypatch):
    monkeypatch.delenv("OUTER_PID", raising=False)
    return armed


SUITE = """
import logging

@pytest.fixture(scope="module")
def engine():
    assert not is_outer()
    print("engine up")
    yield 42
    pathlib.Path(f"down-{os.getpid()}").touch()

@fresh
def test_passes(engine, tmp_path, request):
    assert engine == 42 and not is_outer() and tmp_path.is_dir()
    assert request.config.getoption("markexpr") == "not slow"

@fresh
def test_fails(engine):
    print("words of the test")
    logging.getLogger("x").warning("a logged word")
    number = 1
    assert number == 2

@fresh
@pytest.mark.xfail(reason="known bug", strict=True)
def test_xfails():
    assert not is_outer()
    raise ValueError

@fresh
@pytest.mark.xfail(reason="gone bug", strict=True)
def test_xpasses():
    pass

@fresh
def test_slow():
    time.sleep(0.3)

@fresh
@pytest.mark.parametrize("value", ["a", "b::[c]"])
def test_parameter(value):
    assert value in ("a", "b::[c]")

@fresh
def test_breaks_down(broken):
    pass

@pytest.fixture
def broken():
    yield
    raise RuntimeError("no way down")

def test_plain():
    assert is_outer()
"""


def test_outcome_output_and_durations_are_those_of_the_process(project, inner):
    project.makepyfile(test_a=HEAD + SUITE)
    result = inner("-rA", "-m", "not slow", "--durations=0", "--durations-min=0.25", "--omni-report=out.json")
    result.assert_outcomes(passed=6, failed=2, xfailed=1, errors=1)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_breaks_down*",
            "*RuntimeError: no way down",
            "*test_fails*",
            "*assert number == 2",
            "E*assert 1 == 2",
            "*Captured stdout setup*",
            "engine up",
            "*Captured stdout call*",
            "words of the test",
            "*Captured log call*",
            "*a logged word",
            "*XPASS(strict)*gone bug",
            "*slowest*",
            "0.3*s call*test_a.py::test_slow",
        ]
    )
    assert "XFAIL test_a.py::test_xfails - known bug" in text
    # one module fixture a process, and none out here
    assert len(list(project.path.glob("down-*"))) == 2
    assert text.count("test session starts") == 1


def test_vllm_skip_in_a_child_is_a_skip_with_its_reason(project, inner):
    # vllm, tests/utils.py: pytest.skip in a forked test ended the child with 0, and counted as passed
    project.makepyfile(
        test_a=HEAD
        + """
@pytest.mark.parametrize("how", [pytest.param("x", marks=fresh), pytest.param("y", marks=forked)])
def test_skips(how):
    assert not is_outer()
    pytest.skip(f"no {how} here")

@fresh
@pytest.mark.skipif(is_outer(), reason="not even started")
def test_condition():
    raise AssertionError
"""
    )
    result = inner("-rs", "-p", "no:randomly")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines_random(["*no x here", "*no y here", "*not even started"])


def test_vllm47446_a_fork_says_who_initialised_the_runtime(project, inner):
    project.makepyfile(torch=TORCH)
    project.makepyfile(test_a="import torch\ntorch.cuda.init()\ndef test_quiet(): pass\n")
    project.makepyfile(
        test_b=HEAD
        + """
import torch

@forked
def test_refused():
    raise AssertionError

@fresh
def test_new_process():
    assert not is_outer()
"""
    )
    result = inner()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "fresh_process(method='fork'): torch.cuda is initialised in this process since test_a.py, *Leave method out*"
        ]
    )
    assert result.stdout.str().count("Traceback") == 0
    # without that file, the same test runs in a fork; and the process that initialised it is the one to be named
    project.makepyfile(
        test_b=HEAD
        + """
import torch

@forked
def test_in_a_fork():
    assert not is_outer()
    torch.cuda.init()

def test_initialises():
    assert not torch.cuda.is_initialized()
    torch.cuda.init()

@forked
def test_refused():
    raise AssertionError
"""
    )
    result = inner("test_b.py")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*since test_b.py::test_initialises, *"])
    project.makeconftest("import torch\ntorch.cuda.init()\n")
    inner("test_b.py", "-k", "refused").stdout.fnmatch_lines(["*since */conftest.py, *"])


def test_a_fork_uses_what_lives_here_and_ends_only_what_it_started(project, inner):
    project.makepyfile(
        test_a=HEAD
        + """
@pytest.fixture(scope="module")
def shared():
    yield os.getpid()
    pathlib.Path(f"shared-down-{'outer' if is_outer() else 'fork'}").touch()

@pytest.fixture(scope="module")
def own():
    yield os.getpid()
    pathlib.Path(f"own-down-{'outer' if is_outer() else 'fork'}").touch()

def test_first(shared):
    assert is_outer()

@forked
def test_forked(shared, own):
    print("from the fork")
    assert str(shared) == OUTER and own == os.getpid() and not is_outer()

@forked
def test_fails(own):
    print("from another fork")
    assert own == 0

def test_last(shared):
    assert str(shared) == OUTER
    assert not pathlib.Path("shared-down-outer").exists()
"""
    )
    result = inner("-rP")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*from another fork*", "*from the fork*"])
    assert sorted(path.name for path in project.path.glob("*-down-*")) == [
        "own-down-fork",
        "shared-down-outer",
    ]


@pytest.mark.process
@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="subtests came with pytest 9")
@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_failed_subtest_is_never_lost(project, inner, workers):
    project.makepyfile(
        test_a=HEAD
        + """
import unittest

def parts(subtests):
    with subtests.test("one"): pass
    with subtests.test("two"): assert is_outer() is None

@fresh
def test_fresh(subtests): parts(subtests)

@forked
def test_forked(subtests): parts(subtests)

class TestCase(unittest.TestCase):
    @fresh
    def test_fresh(self):
        with self.subTest("a"): self.fail("x")

    @forked
    def test_forked(self):
        with self.subTest("a"): self.fail("x")
"""
    )
    result = inner("-rA", *workers, plugins=("xdist.plugin", "pytest_omni.plugin"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert sorted(line for line in result.outlines if re.match("SUBFAILED|FAILED|PASSED", line)) == [
        "FAILED test_a.py::test_forked - contains 1 failed subtest",
        "FAILED test_a.py::test_fresh - contains 1 failed subtest",
        "PASSED test_a.py::TestCase::test_forked",
        "PASSED test_a.py::TestCase::test_fresh",
        "SUBFAILED[a] test_a.py::TestCase::test_forked - AssertionError: x",
        "SUBFAILED[a] test_a.py::TestCase::test_fresh - AssertionError: x",
        "SUBFAILED[two] test_a.py::test_forked - assert False is None",
        "SUBFAILED[two] test_a.py::test_fresh - assert False is None",
    ]


@pytest.mark.process
def test_what_a_process_cannot_take_over_is_said(project, inner):
    project.makepyfile(
        test_a=HEAD
        + """
@fresh
def test_ends_the_session(): pytest.exit("enough")

@fresh
def test_plain(tmp_path): assert not is_outer()
"""
    )
    debugged = inner("--trace")
    debugged.assert_outcomes(passed=1, failed=1)
    debugged.stdout.fnmatch_lines(
        ["the test ended its session: Exit: enough", "--pdb and --trace do not reach fresh_process tests: *"]
    )
    shown = inner("--setup-show", "-k", "plain")
    shown.assert_outcomes(passed=1, deselected=1)
    planned = inner("--setup-plan", "-k", "plain")
    planned.stdout.fnmatch_lines(["*SETUP    F tmp_path*"])
    planned.assert_outcomes(deselected=1)


@pytest.mark.process
@pytest.mark.parametrize("mark", ["fresh", "forked"])
def test_a_crash_is_a_failure_that_names_the_signal(project, inner, mark):
    project.makepyfile(
        test_a=HEAD
        + f"""
@{mark}
def test_crashes():
    os.kill(os.getpid(), signal.SIGSEGV)

@{mark}
def test_leaves_in_silence():
    os._exit(0)

@pytest.fixture
def deadly():
    os.kill(os.getpid(), signal.SIGKILL)

@{mark}
def test_crashes_in_setup(deadly):
    pass

@{mark}
@pytest.mark.xfail(reason="crashes")
def test_known_crash():
    os.abort()

def test_goes_on():
    pass
"""
    )
    result = inner()
    result.assert_outcomes(passed=1, failed=2, errors=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "the fresh process of this test ended before the end of its setup: signal SIGKILL",
            "the fresh process of this test ended before the end of its call: signal SIGSEGV",
            "the fresh process of this test ended before the end of its call: code 0",
        ]
    )
    if mark == "fresh":
        result.stdout.fnmatch_lines(['  File "*test_a.py", line * in test_crashes'])
        assert "/pluggy/" not in result.stdout.str()


@pytest.mark.process
def test_a_process_that_hangs_is_ended_with_all_it_started(project, inner, patient):
    patient(
        "import types\nfrom pytest_omni.isolation import fresh_spawn\n"
        "fresh_spawn.time = types.SimpleNamespace(monotonic=patient, sleep=_time.sleep)"
    )
    project.makepyfile(
        test_a=HEAD
        + """
import subprocess

@pytest.mark.fresh_process(timeout=0.5)
def test_hangs():
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
    pathlib.Path("left").write_text(str(left.pid))
    pathlib.Path("far").touch()
    time.sleep(300)

@pytest.mark.fresh_process(method="fork", timeout=1)
def test_fork_hangs():
    pathlib.Path("fork").write_text(str(os.getpid()))
    time.sleep(300)
"""
    )
    result = inner("--durations=2")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*its call: no end after 0.5 s (fresh_process(timeout=...) sets another limit), so it was killed",
            '  File "*test_a.py", line * in test_hangs',
            "*its call: no end after 1 s*",
            "*s call*test_hangs",
        ]
    )
    for name in ("left", "fork"):  # ended, be they reaped or not
        assert not lives(int((project.path / name).read_text()))


@pytest.mark.process
def test_nothing_outlives_a_pytest_that_is_killed(project, monkeypatch):
    project.makepyfile(
        test_a=HEAD
        + """
@fresh
def test_sleeps():
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(300)
"""
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_omni.plugin"]
    outer = subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL)
    pid = project.path / "pid"
    try:
        waited(lambda: pid.exists() and pid.read_text())
    finally:
        outer.kill()
        outer.wait()
    child = int(pid.read_text())
    waited(lambda: not lives(child))


def lives(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def waited(done):
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_under_xdist_every_worker_starts_its_own(project, inner):
    project.makepyfile(
        test_a=HEAD
        + """
@pytest.fixture(scope="session")
def session_wide():
    yield
    pathlib.Path(f"down-{os.getpid()}").touch()

@fresh
@pytest.mark.parametrize("n", range(3))
def test_fresh(n, session_wide, tmp_path):
    assert not is_outer() and "PYTEST_XDIST_WORKER" in os.environ

@fresh
def test_skips():
    pytest.skip("from a worker's child")

@fresh
def test_fails():
    assert 1 == 2, "as it should"
"""
    )
    result = inner("-n2", "-rs", "--omni-report=out.json", plugins=("pytest_omni.plugin", "xdist.plugin"))
    result.assert_outcomes(passed=3, skipped=1, failed=1)
    result.stdout.fnmatch_lines(["*as it should*", "SKIPPED*from a worker's child"])
    assert len(list(project.path.glob("down-*"))) == 3
    assert '"failed": 1' in (project.path / "out.json").read_text()


def test_what_it_prints_is_seen_at_once_without_capture(project, inner):
    project.makepyfile(
        test_a=HEAD + "\n@fresh\ndef test_it():\n    print('live words')\n    os.system('echo of a child')\n"
    )
    result = inner("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*live words", "of a child"])


def test_session_files_and_limits_stay_with_the_session(project, inner):
    project.makepyfile(
        test_a=HEAD + "\n@fresh\ndef test_bad():\n    assert 0\n\n@fresh\ndef test_good(): pass\n"
    )
    inner("--junitxml=junit.xml", "--maxfail=5", "--omni-report=out.json", "--omni-max-skips=0")
    junit = (project.path / "junit.xml").read_text()
    assert 'tests="2"' in junit
    assert 'failures="1"' in junit
    assert '"collected": 2' in (project.path / "out.json").read_text()


def test_the_process_is_measured_and_leaves_the_sessions_data_alone(project, inner):
    project.makepyfile(mycode="def here():\n    return 1\n\n\ndef there():\n    return 2\n")
    project.makepyfile(
        test_a=HEAD
        + """
import mycode

def test_here():
    assert mycode.here() == 1

@fresh
def test_there():
    assert mycode.there() == 2
"""
    )
    pyproject = (project.path / "pyproject.toml").read_text()
    run = '\n[tool.coverage.run]\nsource = ["."]\n'
    plugins = ("pytest_omni.plugin", "pytest_cov.plugin")
    (project.path / "pyproject.toml").write_text(pyproject + run + 'patch = ["subprocess"]\n')
    result = inner("--cov", "--cov-report=term-missing", plugins=plugins)
    result.assert_outcomes(passed=2)
    assert re.search(r"^mycode\.py +4 +0 +100%", result.stdout.str(), re.MULTILINE)
    (project.path / "pyproject.toml").write_text(pyproject + run)
    result = inner("--cov", "--cov-report=term-missing", plugins=plugins)
    assert re.search(r"^mycode\.py +4 +1 +75%", result.stdout.str(), re.MULTILINE)
    result.stdout.fnmatch_lines(["*coverage of fresh_process tests is not recorded*patch = subprocess*"])


def test_a_file_that_cannot_be_collected_there_says_why(project, inner):
    project.makepyfile(
        test_a=HEAD
        + """
if not is_outer():
    raise RuntimeError("not in a child")

@fresh
def test_it(): pass
"""
    )
    result = inner()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*before the end of its setup: code [24]", "test_a.py could not be collected in it:"]
    )
    result.stdout.fnmatch_lines(["*RuntimeError: not in a child"])


def test_an_unarmed_session_knows_no_such_marker(inner, pytester):
    pytester.makepyfile("import pytest\n\n@pytest.mark.fresh_process\ndef test_it(): pass\n")
    result = inner("--strict-markers")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*'fresh_process' not found in `markers`*"])
    # it would run in this process, and be green
    result = inner()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*marker 'fresh_process' belongs to pytest-omni, which is not armed*"])
    pytester.makeini("[pytest]\nmarkers = fresh_process: a word of our own\n")
    inner().assert_outcomes(passed=1)


@pytest.mark.skipif(not entry_points(group="pytest11", name="omni"), reason="the plugin is not installed")
def test_warnings_that_are_errors_stop_no_process(project, inner, monkeypatch):
    # as an installed plugin it is one of the modules that pytest rewrites: imported before, it would be warned of
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    with (project.path / "pyproject.toml").open("a") as file:
        file.write("\nfilterwarnings = ['error']\n")
    project.makepyfile(test_a=HEAD + "\n@fresh\ndef test_it(): assert not is_outer()\n")
    others = ("asyncio", "pytest_cov", "randomly", "rerunfailures", "timeout", "anyio", "hypothesispytest")
    inner(*(f"-pno:{name}" for name in others), plugins=()).assert_outcomes(passed=1)


def test_the_start_of_the_process_is_part_of_the_setup(project, inner):
    project.makepyfile(test_a=HEAD + "\n@fresh\ndef test_it(): time.sleep(0.3)\n")
    result = inner("--durations=0", "--durations-min=0", "-vv")
    spent = {
        when: float(s)
        for s, when in re.findall(r"^([\d.]+)s (\w+) +test_a", result.stdout.str(), re.MULTILINE)
    }
    assert 0.3 <= spent["call"] < spent["setup"] + 0.3
    assert spent["setup"] > 0.05  # no Python starts faster, let alone pytest


MARKS = [
    (pytest.mark.fresh_process, Spec()),
    (pytest.mark.fresh_process(method="fork", timeout=5), Spec(fresh_run.Method.FORK, 5.0)),
    (pytest.mark.fresh_process("fork"), "takes keywords only"),
    (pytest.mark.fresh_process(methd="fork"), "unknown argument 'methd' (did you mean 'method'?)"),
    (pytest.mark.fresh_process(method="frok"), "unknown method 'frok' (did you mean 'fork'?)"),
    (pytest.mark.fresh_process(timeout=0), "timeout must be seconds above 0, not 0"),
    (pytest.mark.fresh_process(timeout=True), "timeout must be seconds above 0, not True"),
    (pytest.mark.fresh_process(timeout="1 min"), "timeout must be seconds above 0, not '1 min'"),
]


@pytest.mark.parametrize(("mark", "meaning"), MARKS)
def test_the_mark_means_what_it_says_or_is_refused(mark, meaning):
    if isinstance(meaning, Spec):
        assert fresh_run.spec_of(mark.mark) == meaning
    else:
        with pytest.raises(InputError, match=re.escape(meaning)):
            fresh_run.spec_of(mark.mark)


def test_a_line_that_was_cut_off_does_not_count(tmp_path):
    path = tmp_path / "reports.jsonl"
    assert fresh_reports.read(path) == ({}, (), ())
    part = {"when": "setup", "_report_type": "SubTestReport"}
    fresh_reports.append(path, {"report": {"when": "setup", "odd": Path("x")}})
    fresh_reports.append(path, {"report": part})
    fresh_reports.append(path, {"said": "a word"})
    with path.open("a") as file:
        file.write('{"report": {"when": "call"')
    assert fresh_reports.read(path) == ({"setup": {"when": "setup", "odd": "x"}}, (part,), ("a word",))


def test_the_message_tells_phase_end_and_last_words():
    end = End(
        how="signal SIGSEGV", fine=False, reports={"setup": {}}, said=("it did not select x",), log="last"
    )
    assert fresh_run.missing(end, "call").splitlines() == [
        "the fresh process of this test ended before the end of its call: signal SIGSEGV",
        "it did not select x",
        "the end of what it printed:",
        "last",
    ]
    assert "after its last report: code 3" in fresh_run.missing(
        End(how="code 3", fine=False, reports={"teardown": {}}), "teardown"
    )


def test_the_command_keeps_the_interpreters_strictness(monkeypatch):
    monkeypatch.setattr(sys, "warnoptions", ["error::BytesWarning"])
    command = fresh_spawn.command(Path("request.json"))
    assert command[0] == sys.executable
    assert "-Werror::BytesWarning" in command
    assert command[-2:] == [str(fresh_spawn.SCRIPT), "request.json"]
    assert os.path.isfile(command[-2])  # noqa: PTH113
