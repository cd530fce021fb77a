"""What bash makes of a job's commands, and what we make of that: real bash, literal answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omni_ci.runner
from omni_ci.runner import Outcome, run_items

ROOT = Path(__file__).resolve().parents[3]


def ran(*commands: str, cwd: Path = ROOT, **environ: str) -> Outcome:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return run_items(commands, cwd=cwd, environ={**kept, **environ}, log=Path(os.devnull))


def status(code: int) -> str:
    return f"bash -c 'exit {code}'"


TRAP_WITH_EXIT = "trap 'exit 9' ERR"
NONE = None
# commands → the exit code, and the status of each item (None: not run)
TABLE: dict[str, tuple[tuple[str, ...], int, tuple[int | None, ...]]] = {
    "all pass": (("true", "true"), 0, (0, 0)),
    "fail(3); ok": ((status(3), "true"), 3, (3, 0)),
    "5; 1": ((status(5), status(1)), 1, (5, 1)),
    "1; 5": ((status(1), status(5)), 1, (1, 5)),
    "5; ok": ((status(5), "true"), 5, (5, 0)),
    "5, 2, 1": ((status(5), status(2), status(1)), 2, (5, 2, 1)),
    "0, 0, 5": (("true", "true", status(5)), 5, (0, 0, 5)),
    "x | tee with x=4": ((f"{status(4)} | tee /dev/null", "true"), 4, (4, 0)),
    "exit 0 after a failure": ((status(3), "exit 0", "true"), 3, (3, 0, NONE)),
    "exit 0 after a failure in one item": ((f"{status(3)}\nexit 0", "true"), 3, (3, NONE)),
    "exit 7": (("exit 7", "true"), 7, (7, NONE)),
    "exit 7 inside a function": (("f() { exit 7; }", "f", "true"), 7, (0, 7, NONE)),
    "exec": (("exec bash -c 'exit 6'", "true"), 6, (6, NONE)),
    "cd /missing": (("cd /missing", "true"), 1, (1, NONE)),
    "(x || true) && cd /missing": (("(nowhere || true) && cd /missing", "true"), 1, (1, NONE)),
    "cd /missing && tests": (("cd /missing && true", "true"), 1, (1, NONE)),
    "cd /missing; tests": (("cd /missing; true", "true"), 1, (1, NONE)),
    "cd in a function": (("f() { cd /missing; true; }; f", "true"), 1, (1, NONE)),
    "pushd /missing": (("pushd /missing", "true"), 1, (1, NONE)),
    "cd /missing || true": (("cd /missing || true", "true"), 0, (0, 0)),
    "cd /missing || cd /": (("cd /missing 2>/dev/null || cd /", '[ "$PWD" = / ]'), 0, (0, 0)),
    "if cd /missing": (("if cd /missing; then true; fi", "true"), 0, (0, 0)),
    "cd /missing in a subshell": (("(cd /missing; true)", "true"), 0, (0, 0)),
    "source /missing": (("source /missing", "true"), 1, (1, NONE)),
    ". /missing": ((". /missing", "true"), 1, (1, NONE)),
    "a && b with a failing": ((f"{status(6)} && true", "true"), 6, (6, 0)),
    "a || b": ((f"{status(6)} || true", "true"), 0, (0, 0)),
    "export X=$(fail)": ((f"export X=$({status(3)})", "true"), 0, (0, 0)),
    "X=$(fail)": ((f"X=$({status(3)})", "true"), 3, (3, 0)),
    "(fail; ok)": ((f"({status(3)}; true)", "true"), 0, (0, 0)),
    "bash -c 'fail; ok'": (("bash -c '(exit 3); true'", "true"), 0, (0, 0)),
    "fail & wait": ((f"{status(3)} & wait", "true"), 0, (0, 0)),
    "f & wait": ((f"f() {{ {status(3)}; true; }}", "f & wait", "true"), 0, (0, 0, 0)),
    "a user's trap on ERR": (("trap 'true' ERR", status(3), "true"), 3, (0, 3, 0)),
    "a user's trap on ERR in one item": ((f"trap 'true' ERR\n{status(3)}\ntrue", "true"), 3, (3, 0)),
    "a user's trap that exits": ((TRAP_WITH_EXIT, status(3), "true"), 3, (0, 3, NONE)),
    "trap - ERR": (("trap - ERR", f"{status(3)}\ntrue"), 3, (0, 3)),
    "trap '' ERR": (("trap '' ERR", f"{status(3)}\ntrue"), 3, (0, 3)),
    "trap ERR": (("trap ERR", f"{status(3)}\ntrue"), 3, (0, 3)),
    "trap SIGERR": (("trap 'true' SIGERR", f"{status(3)}\ntrue"), 3, (0, 3)),
    "a user's trap that exits, taken back": (
        (TRAP_WITH_EXIT, "trap ERR", status(3), "true"),
        3,
        (0, 0, 3, 0),
    ),
    "an export that fails": (("export 1x=2", "true"), 1, (1, NONE)),
    "a trap on ERR and EXIT": (("trap 'true' EXIT ERR", f"{status(3)}\ntrue"), 3, (0, 3)),
    "a trap on EXIT that fails": (("trap 'exit 8' EXIT", "true"), 8, (0, 0)),
    "a trap on EXIT after a failure": (("trap 'exit 8' EXIT", status(3)), 3, (0, 3)),
    "! true": (("! true", "true"), 1, (1, 0)),
    "[ a = b ]": (("[ a = b ]", "true"), 1, (1, 0)),
    "((0))": (("((0))", "true"), 1, (1, 0)),
    "a trap on EXIT that says 0": (("trap 'exit 0' EXIT", "exit 3", "true"), 3, (0, 3, NONE)),
    "a trap on EXIT that says 0 as the last": (("trap 'exit 0' EXIT", "exit 3"), 3, (0, 3)),
    "a trap on EXIT in a subshell": (("(trap 'true' EXIT; exit 3) || true", "true"), 0, (0, 0)),
    "exit 0": (("exit 0", "true"), 0, (0, NONE)),
    "exit": (("if true; then exit; fi", "true"), 0, (0, NONE)),
    "set -n": (("set -n", "true"), 1, (0, NONE)),
    "set -n in one item": (("set -n\ntrue",), 1, (0,)),
    "exec before another item": (("exec true", "true"), 1, (0, NONE)),
    "exec in the last item": (("true", "exec true"), 0, (0, 0)),
    "a trap is no exit": (("trap 'exit 0' USR1; kill -USR1 $$", "true"), 1, (0, NONE)),
    "set -e": (("set -e", status(3), "true"), 3, (0, 3, NONE)),
    "set -e in the failing item": ((f"set -e\n{status(3)}\ntrue", "true"), 3, (3, NONE)),
    "set -eu and all pass": (("set -euo pipefail", "true", "true"), 0, (0, 0, 0)),
    "set +o pipefail": (("set +o pipefail", f"{status(4)} | true"), 0, (0, 0)),
    "set -x": (("set -x", status(3), "true"), 3, (0, 3, 0)),
    "set -o posix": (("set -o posix", status(3), "true"), 3, (0, 3, 0)),
    "set -o noclobber": (("set -o noclobber", status(3), "true"), 3, (0, 3, 0)),
    "functions of the same names": (
        ("printf() { exit 9; }; exit() { :; }; test() { exit 9; }", status(3), "cd /missing", "true"),
        3,
        (0, 3, 1, NONE),
    ),
    "PATH is gone": (("PATH=", "[ a = a ]", "cd /missing", "true"), 1, (0, 0, 1, NONE)),
    "no clock": (("unset SECONDS EPOCHREALTIME PWD", status(3), "true"), 3, (0, 3, 0)),
    "set -f and another IFS": (("set -f; IFS=0123456789", status(3), "true"), 3, (0, 3, 0)),
    "syntax error": (("if then", "true"), 2, (2, 0)),
    "not found": (("nowhere-at-all", "true"), 127, (127, 0)),
    "SIGKILLed child": (("bash -c 'kill -9 $$'", "true"), 137, (137, 0)),
    "SIGSEGV": (("bash -c 'kill -SEGV $$'", "true"), 139, (139, 0)),
    "the shell itself is killed": (("kill -9 $$", "true"), 137, (137, NONE)),
    "a block keeps its first failure": ((f"true\n{status(3)}\n{status(4)}\ntrue", "true"), 3, (3, 0)),
    "a block: a real failure beats 5": ((f"{status(5)}\n{status(2)}\ntrue",), 2, (2,)),
    "a block: 5 is kept": ((f"{status(5)}\ntrue",), 5, (5,)),
    "a block: a function's inside": ((f"f() {{ {status(3)}; true; }}\nf",), 3, (3,)),
    "break": (("break", "continue", status(3)), 3, (0, 0, 3)),
    "return": (("return 4", "true"), 2, (2, 0)),
    "a comment": (("# nothing", "true"), 0, (0, 0)),
    "a heredoc": (("cat > /dev/null <<'END'\n\nit's $x\nEND\n", "true"), 0, (0, 0)),
    "quotes and backslashes": ((r"""[ "a'b\"c\\d" = "a'b\"c\\d" ] && [ 'x"y' = "x\"y" ]""",), 0, (0,)),
}


@pytest.mark.parametrize(("commands", "code", "statuses"), TABLE.values(), ids=TABLE)
def test_the_table_of_commands(commands, code, statuses):
    outcome = ran(*commands)
    assert (outcome.status, tuple(item.status for item in outcome.items)) == (code, statuses)
    assert outcome.leaked == ""


@pytest.mark.parametrize("options", ["set -u", "set -eu"])
def test_an_unset_name_under_set_u_ends_the_job_and_is_named(options):
    # 1 or 127, as bash's version will have it
    outcome = ran(options, 'true "$UNSET_NAME"', "true")
    first, failed, rest = outcome.items
    assert (first.status, rest.status) == (0, None)
    assert outcome.status == failed.status != 0
    assert failed.note == f"ended the shell with status {failed.status}"


def test_an_open_quote_is_the_items_own_failure():
    outcome = ran("true", "echo 'abc")
    assert (outcome.status, outcome.items[1].status) == (2, 2)


def test_cd_export_functions_and_options_persist(tmp_path):
    outcome = ran(
        f"cd {tmp_path}",
        "export HELD=1",
        "declare -a LIST=(a b)",
        "f() { echo f; }",
        'bash -c \'[ "$HELD" = 1 ]\' && [ "$PWD" = "$(pwd)" ] && [ "${LIST[1]}" = b ] && [ "$(f)" = f ]',
        "pwd > here.txt",
    )
    assert outcome.status == 0
    assert (tmp_path / "here.txt").read_text().strip() == str(tmp_path)


def test_the_folders_of_the_commands_are_known(tmp_path):
    (tmp_path / "a").mkdir()
    outcome = ran("cd a\ncd ..\ncd a", "(cd /)", cwd=tmp_path)
    assert outcome.folders == (str(tmp_path), f"{tmp_path}/a")


@pytest.mark.parametrize(
    ("commands", "note"),
    [
        (("true\ncd /missing\ntrue",), "`cd /missing` failed"),
        (("cd /missing && pytest",), "`cd /missing` failed"),
        ((". /missing",), "`. /missing` failed"),
        (("exit 7",), "ended the shell with status 7"),
        (("true\nbash -c 'exit 3'\ntrue",), "first failure: bash -c 'exit 3'"),
        (("kill -9 $$",), "a signal ended the shell in it"),
    ],
)
def test_an_item_says_what_its_status_does_not(commands, note):
    assert note in ran(*commands).items[0].note


def test_a_users_handler_is_called_once_a_failure_and_not_for_what_bash_excuses(tmp_path):
    said = tmp_path / "said"
    outcome = ran(
        f"trap 'echo $? >> {said}' ERR", status(3), "false || true", "! true", "(exit 4)", "(false; true)"
    )
    assert outcome.status == 3
    assert said.read_text().split() == ["3", "4"]


def test_a_users_handler_of_exit_gets_the_status_and_is_called_once(tmp_path):
    said = tmp_path / "said"
    assert ran(f"trap 'echo $? >> {said}' EXIT", "exit 3").status == 3
    assert ran(f"trap 'echo $? >> {said}' EXIT ERR; set -e", status(4), "true").status == 4
    assert ran(f"trap 'echo $? >> {said}' EXIT", "trap - EXIT", "exit 5").status == 5
    assert said.read_text().split() == ["3", "4", "4"]


@pytest.mark.parametrize("first", ["set -e\n(exit 5)", "exec bash -c 'exit 5'", "(exit 5); exit 0"])
def test_no_tests_is_no_success_where_items_were_not_run(first):
    outcome = ran(first, "true")
    assert (outcome.status, outcome.items[1].status) == (5, None)
    assert outcome.allowing_no_tests().status == 5


def test_an_open_quote_before_other_items_is_named():
    (note,) = ran('echo "abc', "true").notes
    assert (
        note == 'item 1 cannot be read as shell (the " of line 1 is not closed), and bash gave up on the rest'
    )


def test_a_shell_that_went_away_before_the_rest_is_no_success():
    (note,) = ran("set -n", "true").notes
    assert note == (
        "item 1 ended the shell with 0 though no `exit` stands in it, so that what follows it did not run"
    )


def test_a_users_other_traps_work(tmp_path):
    said = tmp_path / "said"
    outcome = ran(f"trap 'echo bye >> {said}' EXIT", f"trap 'echo usr1 >> {said}' USR1", "kill -USR1 $$")
    assert outcome.status == 0
    assert said.read_text().split() == ["usr1", "bye"]
    assert ran(f"trap 'echo both >> {said}' EXIT USR1", "kill -USR1 $$").status == 0
    assert said.read_text().split() == ["usr1", "bye", "both", "both"]
    assert ran("trap -l > /dev/null && trap -p > /dev/null && trap").status == 0


def test_the_environment_of_the_shell_does_nothing_of_its_own(tmp_path):
    (tmp_path / "start.sh").write_text("exit 9\n")
    assert ran("true", BASH_ENV=str(tmp_path / "start.sh"), ENV=str(tmp_path / "start.sh")).status == 0


def test_nothing_is_read_from_the_terminal():
    assert ran("read -r line").items[0].status == 1


def test_output_is_in_order_and_titled(tmp_path):
    log = tmp_path / "log"
    run_items(("echo one", "echo two >&2"), cwd=tmp_path, environ=os.environ, log=log)
    assert log.read_text() == "--- [1/2] echo one\none\n--- [2/2] echo two >&2\ntwo\n"


def test_a_command_that_empties_tmp_loses_no_status(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    outcome = ran(f"rm -rf {tmp_path}/*", status(3), "true", cwd=Path("/"))
    assert [item.status for item in outcome.items] == [0, 3, 0]


def test_a_reader_that_left_ends_no_item(tmp_path):
    commands = ["until [ -e closed ]; do sleep 0.05; done", "touch ran"]
    environ = {**os.environ, "OMNI_COMMANDS": json.dumps(commands)}
    call = [sys.executable, "-m", "omni_ci", "exec", "--timeout", "30"]
    with subprocess.Popen(call, cwd=tmp_path, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while b"[1/2]" not in process.stdout.readline():
            assert process.poll() is None
        process.stdout.close()
        (tmp_path / "closed").touch()
        process.wait()
    assert (tmp_path / "ran").exists()


def test_a_secret_is_not_in_the_title(tmp_path):
    log = tmp_path / "log"
    run_items(("HF_TOKEN=hf_abcdefghij true",), cwd=tmp_path, environ=os.environ, log=log)
    assert "hf_abc" not in log.read_text()


def test_the_bookkeeping_is_not_traced(tmp_path):
    log = tmp_path / "log"
    run_items(("set -x", "true"), cwd=tmp_path, environ=os.environ, log=log)
    assert "__omni" not in log.read_text()


def test_opensre3899_a_path_that_does_not_exist_is_no_empty_shard(tmp_path):
    """A stale path ended as "no tests", which the shard's tolerance swallowed: 4 is not 5."""
    (tmp_path / "test_none.py").write_text("x = 1\n")
    pytest_ = f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null"
    outcome = ran(f"{pytest_} test_none.py", f"{pytest_} gone.py", cwd=tmp_path)
    assert [item.status for item in outcome.items] == [5, 4]
    assert outcome.status == 4
    assert outcome.allowing_no_tests().status == 4


def test_autoharness152_a_broken_collection_is_no_empty_one(tmp_path):
    """Tolerating 5 must not hide a file that cannot be imported: pytest says 2."""
    (tmp_path / "test_none.py").write_text("x = 1\n")
    (tmp_path / "test_broken.py").write_text("import nowhere_at_all\n")
    pytest_ = f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null"
    outcome = ran(f"{pytest_} test_none.py", f"{pytest_} test_broken.py", cwd=tmp_path).allowing_no_tests()
    assert [item.status for item in outcome.items] == [5, 2]
    assert outcome.status == 2


def test_vllm_omni6175_an_item_without_tests_does_not_end_the_rest(tmp_path):
    """On XPU `set -e` around several roots let the first root without tests (5) end the job before the others."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "empty/test_none.py").write_text("x = 1\n")
    (tmp_path / "full/test_one.py").write_text("def test_one(): open('ran', 'w').close()\n")
    pytest_ = f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null"
    outcome = ran(f"{pytest_} empty", f"{pytest_} full", cwd=tmp_path)
    assert [item.status for item in outcome.items] == [5, 0]
    assert (tmp_path / "ran").exists()
    assert outcome.status == 5
    assert outcome.allowing_no_tests().status == 0


def test_the_prelude_is_clean_for_shellcheck():
    shellcheck = Path(sys.executable).parent / "shellcheck"
    if not shellcheck.exists() and not (found := shutil.which("shellcheck")):
        pytest.skip(f"shellcheck is not installed ({found})")
    prelude = Path(omni_ci.runner.__file__).parent / "prelude.sh"
    done = subprocess.run([str(shellcheck), str(prelude)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_lines_that_bash_names_are_those_of_the_commands(tmp_path: Path) -> None:
    log = tmp_path / "log"
    commands = ("nopeprog", "true\nif true; then nopeprog; fi", "! env | grep __omni")
    outcome = run_items(commands, cwd=ROOT, environ={"PATH": os.environ["PATH"], "LC_ALL": "C"}, log=log)
    assert [item.status for item in outcome.items] == [127, 127, 0]
    said = [line for line in log.read_text().splitlines() if "nopeprog:" in line]
    assert said == ["bash: line 1: nopeprog: command not found", "bash: line 3: nopeprog: command not found"]
