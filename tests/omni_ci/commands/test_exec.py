"""`omni-ci exec` as a pod starts it: real processes, real exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from omni_ci.commands.exec import parse
from omni_hardware.errors import InputError

ROOT = Path(__file__).resolve().parents[3]
PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null"


@pytest.fixture
def pod(tmp_path):
    return Pod(tmp_path)


class Pod:
    """A checkout, the folder of an image, and an environment with nothing of this machine's CI in it."""

    def __init__(self, root: Path) -> None:
        self.checkout, self.app, self.tmp = (root / name for name in ("checkout", "app", "tmp"))
        for folder in (self.checkout, self.app, self.tmp):
            folder.mkdir()

    def environ(self, *commands: str, **extra: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        items = {"OMNI_COMMANDS": json.dumps(commands)} if commands else {}
        return {**kept, "TMPDIR": str(self.tmp), **items, **extra}

    def start(self, *tokens: str, environ: dict[str, str], **options) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "omni_ci", "exec", *tokens],
            env=environ,
            cwd=self.checkout,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def run(self, *tokens: str, environ: dict[str, str]) -> tuple[int, str]:
        child = self.start(*tokens, environ=environ)
        out, _ = child.communicate(timeout=60)
        return child.returncode, out


def test_items_run_in_order_and_the_table_closes_the_log(pod):
    code, out = pod.run(environ=pod.environ("echo one", "bash -c 'exit 3'", "echo two"))
    assert code == 3
    assert out.index("one") < out.index("two") < out.index("+++ items")
    assert out.rstrip().endswith("exit 3: item 2, failed")
    assert out.startswith("--- omni-ci exec: 3 items from OMNI_COMMANDS\n")


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (("--timeout", "soon"), "'soon' is no number of seconds above 0"),
        (("--timeout", "0"), "no number of seconds"),
        (("--timeout", "nan"), "no number of seconds"),
        (("--timeout",), "expected one argument"),
        (("--platform", "rcom", "true"), "unknown platform 'rcom' (did you mean 'rocm'?)"),
        (("--tiemout", "1"), "there is no option --tiemout (did you mean '--timeout'?)"),
    ],
)
def test_a_wrong_argument_is_2_and_one_message(pod, tokens, said):
    code, out = pod.run(*tokens, environ=pod.environ("touch ran"))
    assert (code, said in out) == (2, True)
    assert "Traceback" not in out
    assert not (pod.checkout / "ran").exists()


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ((), ()),
        (("--",), ()),
        (("--timeout", "5", "--", "pytest", "--timeout", "3"), ("pytest", "--timeout", "3")),
        (("pytest", "-x", "--", "a"), ("pytest", "-x", "--", "a")),
        (("--", "--", "a"), ("--", "a")),
        (("pytest -k 'a b'",), ("pytest -k 'a b'",)),
    ],
)
def test_everything_from_the_first_word_on_is_the_command(tokens, words):
    assert parse(tokens).words == words


def test_parse_reads_every_option():
    asked = parse(["--platform", "xpu", "--timeout", "1.5", "--grace=2", "--fail-on-leaks"])
    assert (asked.platform, asked.timeout_s, asked.grace_s, asked.fail_on_leaks) == ("xpu", 1.5, 2.0, True)
    with pytest.raises(InputError):
        parse(["--grace", "-1"])


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"OMNI_COMMANDS": "pytest"}, "OMNI_COMMANDS is not JSON"),
        ({}, "nothing to run"),
        ({"VLLM_CI_DOCKER_DISABLED": "0", "OMNI_COMMANDS": '["touch ran"]'}, 'must be "1"'),
        ({"OMNI_ARTIFACT_PATHS": "x", "OMNI_COMMANDS": '["touch ran"]'}, "OMNI_ARTIFACT_PATHS is not JSON"),
        (
            {
                "VLLM_CI_REQUIRE_PERSISTENT_HF_CACHE": "1",
                "HF_HOME": "/proc/..",
                "OMNI_COMMANDS": '["touch ran"]',
            },
            "is on no mount of its own",
        ),
    ],
)
def test_a_guard_is_125_before_the_first_command(pod, environ, said):
    code, out = pod.run(environ=pod.environ(**environ))
    assert (code, said in out) == (125, True), out
    assert not (pod.checkout / "ran").exists()


def test_several_guards_are_one_message(pod):
    code, out = pod.run("--platform", "rocm", environ=pod.environ())
    assert code == 125
    for said in (
        "nothing to run",
        "VLLM_CI_DOCKER_DISABLED is not set",
        "VLLM_CI_EXPECTED_GPU_COUNT is not set",
    ):
        assert said in out


def test_test_commands_alone_run_as_one_unit_and_say_so(pod):
    code, out = pod.run(environ=pod.environ(TEST_COMMANDS="bash -c 'exit 3'\necho on"))
    assert code == 3
    assert "note: TEST_COMMANDS runs as one unit" in out
    assert "\non\n" in out


def test_5_is_5_unless_no_tests_are_allowed_and_then_the_list_is_said(pod):
    commands = ("true", "bash -c 'exit 5'")
    assert pod.run(environ=pod.environ(*commands))[0] == 5
    code, out = pod.run(environ=pod.environ(*commands, VLLM_CI_ALLOW_NO_TESTS="1"))
    assert code == 0
    assert "exit 0: no tests in item 2, which VLLM_CI_ALLOW_NO_TESTS=1 allows" in out


def test_a_job_has_folders_of_its_own_that_go_with_it(pod):
    show = 'for name in TMPDIR XDG_CACHE_HOME MIOPEN_USER_DB_PATH; do test -d "${!name}" && echo "$name=${!name}"; done'
    code, out = pod.run(environ=pod.environ(show, BUILDKITE_JOB_ID="0190", HF_HOME="/m"))
    assert code == 0
    assert f"TMPDIR={pod.tmp}/omni-0190/tmp\n" in out
    assert f"MIOPEN_USER_DB_PATH={pod.tmp}/omni-0190/miopen/db\n" in out
    assert list(pod.tmp.iterdir()) == []


def test_artifacts_come_home_also_when_the_tests_failed(pod):
    environ = pod.environ(
        f"cd {pod.app}",
        "echo served > lora-server.log; bash -c 'exit 3'",
        BUILDKITE_BUILD_CHECKOUT_PATH=str(pod.checkout),
        OMNI_ARTIFACT_PATHS='["lora-server.log", "gone.xml"]',
    )
    code, out = pod.run(environ=environ)
    assert code == 3
    assert (pod.checkout / "lora-server.log").read_text() == "served\n"
    assert "note: artifact_paths: 'gone.xml' matches no file" in out


@pytest.mark.parametrize(("status", "code"), [(3, 3), (0, 1)])
def test_agent1099_an_artifact_that_cannot_be_copied_never_replaces_the_tests_status(pod, status, code):
    """A failed artifact upload overrode the exit status of the tests: both are reported, theirs is kept."""
    (pod.checkout / "log").write_text("a file where a folder should be")
    environ = pod.environ(
        f"mkdir -p {pod.app}/log && cd {pod.app}",
        f"echo x > log/a.txt; bash -c 'exit {status}'",
        BUILDKITE_BUILD_CHECKOUT_PATH=str(pod.checkout),
        OMNI_ARTIFACT_PATHS='["log/*.txt"]',
    )
    found, out = pod.run(environ=environ)
    assert "could not be copied" in out
    assert found == code


def test_vllm_omni6175_xpu_names_its_roots_and_a_broken_collection_is_not_no_tests(pod):
    """Collecting the whole repository crashed on XPU; that must neither be tried unnoticed nor pass for "no tests"."""
    (pod.checkout / "tests").mkdir()
    (pod.checkout / "tests/test_broken.py").write_text("raise SystemError('XPU')\n")
    (pod.checkout / "empty").mkdir()
    xpu = {"VLLM_VERSION": "v0.31.0", "BUILDKITE_COMMIT": "0a", "VLLM_CI_ALLOW_NO_TESTS": "1"}
    code, out = pod.run(
        "--platform",
        "xpu",
        environ=pod.environ(f"{PYTEST} empty", f"{PYTEST} tests", f"{PYTEST} -k x", **xpu),
    )
    assert code == 2
    assert "note: item 3 runs pytest without a path: collecting a whole repository crashes on XPU" in out
    assert "item 1 runs pytest without" not in out
    assert out.rstrip().splitlines()[-1] == "exit 2: item 2, collection error, or interrupted"


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_tree_and_the_report_is_still_written(pod, number, code):
    environ = pod.environ("bash -c 'exit 3' || true", "echo $$ > pid; sleep 60; true", "true")
    child = pod.start(environ=environ)
    deadline = time.monotonic() + 60
    pid = pod.checkout / "pid"
    while not (pid.exists() and pid.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(number)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == code
    assert "1 item was not run" in out
    assert f"ended because of {number.name}" in out
    with pytest.raises(psutil.NoSuchProcess):
        psutil.Process(int((pod.checkout / "pid").read_text()))


@pytest.mark.process
@pytest.mark.parametrize(("options", "code"), [((), 0), (("--fail-on-leaks",), 1)])
def test_what_is_left_behind_is_named_and_fails_only_when_asked(pod, options, code):
    found, out = pod.run(*options, environ=pod.environ("setsid sleep 60 &"))
    assert found == code
    assert "processes left behind, and ended now:\n  pid " in out
    assert "(sleep 60)" in out


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="nobody else hands orphans to a parent of its choice")
@pytest.mark.parametrize(("options", "code"), [((), 0), (("--fail-on-leaks",), 1)])
def test_what_cleared_its_environment_and_left_is_named_and_ended_too(pod, options, code):
    left = "nohup setsid env -i sleep 61.5 >/dev/null 2>&1 &"
    twice = "(setsid env -i bash -c 'sleep 62.5 & exec sleep 63.5' >/dev/null 2>&1 &)"
    found, out = pod.run(*options, environ=pod.environ(left, twice))
    assert found == code
    named = out.partition("processes left behind, and ended now:\n")[2]
    assert {one for one in ("(sleep 61.5)", "(sleep 62.5)", "(sleep 63.5)") if one in named} == {
        "(sleep 61.5)",
        "(sleep 62.5)",
        "(sleep 63.5)",
    }
    living = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"])]
    assert not [words for words in living if words and words[-1] in {"61.5", "62.5", "63.5"}]


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="nobody else hands orphans to a parent of its choice")
def test_a_timeout_ends_what_cleared_its_environment(pod):
    environ = pod.environ("(setsid env -i sleep 64.5 >/dev/null 2>&1 &); sleep 60")
    code, _ = pod.run("--timeout", "1", "--grace", "2", environ=environ)
    assert code == 124
    living = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"])]
    assert ["sleep", "64.5"] not in living


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="nobody else hands orphans to a parent of its choice")
def test_orphans_that_ended_do_not_stay_as_zombies(pod):
    zombies = 'grep -sE "\\) Z $PPID " /proc/[0-9]*/stat'
    code, out = pod.run(
        environ=pod.environ("for i in 1 2 3; do (sleep 0.1 &); done; sleep 1", f"! {zombies}")
    )
    assert code == 0, out


def test_a_reader_that_leaves_changes_no_status(pod):
    child = pod.start(environ=pod.environ("exec >/dev/null; sleep 0.5; exit 3"))
    child.stdout.close()
    assert child.wait(timeout=30) == 3


def test_a_closed_standard_output_is_a_guard(pod):
    command = f"{sys.executable} -m omni_ci exec true >&-"
    done = subprocess.run(
        ["bash", "-c", command],
        env=pod.environ(),
        capture_output=True,
        text=True,
        check=False,
        cwd=pod.checkout,
    )
    assert done.returncode == 125
    assert "standard output is closed" in done.stderr


BARE = """
import sys
allowed = {"omni_ci", "omni_hardware", "psutil", *sys.stdlib_module_names}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in allowed and not name.startswith("_"):
            raise ImportError(f"{name} must not be imported by the runner")
sys.meta_path.insert(0, Refuse())
from omni_ci.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("tokens", [("exec", "--platform", "cuda", "--", "exit 3"), ("exec", "--help")])
def test_the_runner_needs_nothing_but_the_standard_library_and_psutil(pod, tokens):
    done = subprocess.run(
        [sys.executable, "-c", BARE, *tokens],
        env=pod.environ(VLLM_CI_EXPECTED_GPU_COUNT="0"),
        capture_output=True,
        text=True,
        check=False,
        cwd=pod.checkout,
    )
    assert done.returncode == (0 if "--help" in tokens else 3), done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("door", ["run-amd-test.sh", "run-xpu-test.sh"])
def test_a_door_works_from_any_folder_with_nothing_installed(pod, tmp_path, door):
    clone = tmp_path / "clone of it"
    for name in ("scripts", "omni_hardware", "ci"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    # an image with psutil and without this package
    site = Path(psutil.__file__).parents[1]
    (tmp_path / "site").mkdir()
    (tmp_path / "site/psutil").symlink_to(site / "psutil")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    ready = {"VLLM_CI_DOCKER_DISABLED": "1", "VLLM_CI_EXPECTED_GPU_COUNT": "0", "VLLM_VERSION": "v1"}
    environ = pod.environ("pwd", "exit 3", BUILDKITE_COMMIT="0a", **ready)
    done = subprocess.run(
        ["bash", str(clone / "scripts" / door)],
        env={**environ, "PATH": f"{python.parent}:{environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        cwd=pod.app,
    )
    assert done.returncode == 3, done.stderr
    assert f"\n{pod.app}\n" in done.stdout


@pytest.mark.parametrize("door", ["run-amd-test.sh", "run-xpu-test.sh"])
def test_a_door_without_python_is_a_guard_that_says_what_to_install(tmp_path, door):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / door, scripts)
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        ["/bin/bash", str(scripts / door)],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125
    assert done.stderr.startswith(f"{door}: no Python 3.11 with psutil on PATH; install them in the image")


def test_a_folder_that_is_gone_is_a_guard(pod):
    command = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -P -m omni_ci exec true"
    done = subprocess.run(
        ["bash", "-c", command],
        env=pod.environ(),
        capture_output=True,
        text=True,
        check=False,
        cwd=pod.checkout,
    )
    assert done.returncode == 125
    assert "the folder that this was started in is gone" in done.stderr


def test_bytes_that_are_no_text_travel_as_they_are(pod):
    environ = {os.fsencode(name): os.fsencode(value) for name, value in pod.environ().items()}
    environ[b"TEST_COMMANDS"] = b"printf '%s' '\xff\xe9' > bytes"
    done = subprocess.run(
        [sys.executable, "-m", "omni_ci", "exec"],
        env=environ,
        capture_output=True,
        check=False,
        cwd=pod.checkout,
    )
    assert done.returncode == 0, done.stderr
    assert (pod.checkout / "bytes").read_bytes() == b"\xff\xe9"
