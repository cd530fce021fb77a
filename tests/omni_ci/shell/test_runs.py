"""How a script is read: against bash itself where it can be asked, against literals where it cannot."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.shell.runs import parse, pytest_runs, shell_arguments
from omni_hardware import expression

QWEN = """timeout 40m bash -c '
  export VLLM_IMAGE_FETCH_TIMEOUT=60
  pytest -s -v tests/e2e/test_image.py -m 'advanced_model and cuda' --run-level 'advanced_model'
'
"""


def words(script):
    return [command.words for command in parse(script).commands]


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("a 'b c' \"d e\" f\\ g", [("a", "b c", "d e", "f g")]),
        ("a # b\nc #d", [("a",), ("c",)]),
        ("a '#' b#c", [("a", "#", "b#c")]),
        ("a ';' '&&' b", [("a", ";", "&&", "b")]),
        ("a \\\n  b\\\nc", [("a", "bc")]),
        ("a 2>&1 >log <in &>all b", [("a", "b")]),
        ("a 1 2> x", [("a", "1")]),
        ("A=1 B='2 3' a b=c", [("a", "b=c")]),
        ("A=1", [()]),
        ('A=( "x y" $(b) )\nc', [(), ("b",), ("c",)]),
        ("if a; then b; elif c; then d; else e; fi", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("while a; do b; done; until c; do d; done", [("a",), ("b",), ("c",), ("d",)]),
        ("for i in 1 2; do a $i; done", [("a", "$i")]),
        ("for ((i=0; i<3; i++)); do a; done", [("a",)]),
        ("case $x in a|b) c;; (d) e ;; *) f; esac; g", [("c",), ("e",), ("f",), ("g",)]),
        ("{ a; b; } && ! c", [("a",), ("b",), ("c",)]),
        ("f() { a; }; function g { b; }; function h() { c; }", [("a",), ("b",), ("c",)]),
        ("[[ -f a && b < c ]] || d", [("[[", "-f", "a", "&&", "b", "<", "c", "]]"), ("d",)]),
        ("((i++)); a", [("((i++))",), ("a",)]),
        ("echo if then fi", [("echo", "if", "then", "fi")]),
        ("'if' a", [("if", "a")]),
        ("(a; (b)); c", [("a",), ("b",), ("c",)]),
        ('a "$(b "c d" $(e))" `f`', [("a", '$(b "c d" $(e))', "`f`"), ("b", "c d", "$(e)"), ("e",), ("f",)]),
        ("a $((1 + (2))) ${B:-$(c)} ${D:-'}'}", [("a", "$((1 + (2)))", "${B:-$(c)}", "${D:-'}'}"), ("c",)]),
        ("a <(b c) >(d)", [("a", "<(b c)", ">(d)"), ("b", "c"), ("d",)]),
        ("a <<EOF b\nit's $(c)\nEOF\nd", [("a", "b"), ("d",)]),
        ("a <<-'E'\n\tx\n\tE\nd <<< e", [("a",), ("d",)]),
        ("a $'b\\n\\'c' $\"d\"", [("a", "b\n'c", "d")]),
        ('a "b\\$c \\d \\"e\\"" \'\\f\'', [("a", 'b$c \\d "e"', "\\f")]),
        ("eval 'a b' c", [("eval", "a b", "c"), ("a", "b", "c")]),
        ("trap 'a b' EXIT; trap - EXIT", [("trap", "a b", "EXIT"), ("a", "b"), ("trap", "-", "EXIT")]),
        ("bash <<X\na\nX", [("bash",), ("a",)]),
        ("echo bash -c 'a b'", [("echo", "bash", "-c", "a b")]),
        ("", []),
        ("# only words\n\n", []),
    ],
)
def test_the_commands_of_a_script(script, commands):
    assert words(script) == commands
    assert parse(script).problem is None


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to ask")
@pytest.mark.parametrize(
    "script",
    [
        "pytest tests/a.py -m 'a and b' --run-level \"c\"",
        'pytest -m"x y" -m=z \\\n  -k "not q" # tests/b.py',
        'bash -c "pytest \'a b\' \\"c d\\""; pytest e',
        QWEN.replace("timeout 40m ", ""),
        "if true; then for i in 1; do { pytest a; }; done; else pytest b; fi",
        "A='x y' pytest a && pytest b || pytest c; (cd /tmp && pytest d) | cat",
        "cat <<EOF >/dev/null\npytest no\nEOF\npytest yes",
        "eval \"pytest 'a b'\"; case x in y) pytest no;; x) pytest yes;; esac",
        "bash -euo pipefail -c 'pytest a'; bash -c -e 'pytest b' _ c; sh <<'E'\npytest d\nE",
        "pytest '#a' b#c \"d;e\" f\\;g $'h i'",
    ],
)
def test_bash_runs_what_was_read(tmp_path, script):
    """A stand-in for pytest writes down how bash called it; branches that bash does not take are left out."""
    seen = tmp_path / "seen"
    stand_in = tmp_path / "pytest"
    stand_in.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(seen)!r}, 'a').write(json.dumps(sys.argv[1:]) + chr(10))\n"
    )
    stand_in.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash", "-c", script], env=environ, check=False, capture_output=True, timeout=60)
    called = [json.loads(line) for line in seen.read_text().splitlines()]
    read = [list(run.words[run.words.index("pytest") + 1 :]) for run in pytest_runs(script)]
    assert called == [one for one in read if one in called]
    assert all(one in called or set(one) & {"no", "b", "c"} for one in read)


def test_a_command_knows_its_line_and_what_it_stands_in():
    script = "a\n\nif b\nthen\n  c | d &&\n  e\nfi\nbash -c '\n  f\n  (g)\n'\n$(h) &"
    found = [(one.name, one.line, one.before, one.after, one.inside) for one in parse(script).commands]
    assert found == [
        ("a", 1, "", "", ()),
        ("b", 3, "", "", ("if",)),
        ("c", 5, "", "|", ("then",)),
        ("d", 5, "|", "&&", ("then",)),
        ("e", 6, "&&", "", ("then",)),
        ("bash", 8, "", "", ()),
        ("f", 9, "", "", ("bash -c",)),
        ("g", 10, "", "", ("bash -c", "subshell")),
        ("$(h)", 12, "", "&", ()),
        ("h", 12, "", "", ("$()",)),
    ]


def test_a_command_knows_its_folder_assignments_and_redirections():
    script = "cd tests && A=1 B= a >log 2>&1\n(cd ../x; b)\ncd /app; c; cd $HOME; d; cd; e; pushd f; g"
    found = {one.name: one for one in parse(script).commands}
    assert found["a"].folder == "tests"
    assert found["a"].assigns == (("A", "1"), ("B", ""))
    assert found["a"].redirects == ((">", "log"), (">&", "1"))
    assert [found[name].folder for name in "bcdeg"] == ["x", "/app", "$HOME", "$HOME", "$HOME/f"]


def test_the_variables_that_a_script_sets():
    script = (
        "A=1; export B=2 C; for D in x; do :; done; read -r E F\nlocal G; H+=x; J[0]=1\n"
        "printf -v K x; bash -c 'L=1'; X==; echo Y=1 $Z"
    )
    assert parse(script).assigned >= set("ABCDEFGHJKL")
    assert not parse(script).assigned & set("YZ")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo it's", "the ' of line 1 is not closed"),
        ('a\nb "c\nd', 'the " of line 2 is not closed'),
        ("a $(b", "the ( of line 1 is not closed"),
        ("a ${b", "the ${ of line 1 is not closed"),
        ("a `b", "the ` of line 1 is not closed"),
        ("a $'b", "the $' of line 1 is not closed"),
        ("a <<EOF\nb", "the here-document 'EOF' is not closed"),
        ("a <<EOF", "the here-document 'EOF' has no text"),
        ('bash -c "echo it\'s"', "in the script of bash -c: the ' of line 1 is not closed"),
        ("$(" * 60, "commands stand more than 40 deep in each other"),
    ],
)
def test_what_cannot_be_read_exactly_is_said(script, problem):
    assert parse(script).problem == problem


def test_scripts_in_scripts_end_somewhere():
    script = "a"
    for _ in range(12):
        script = f"bash -c {shlex.quote(script)}"
    assert parse(script).problem.endswith("scripts stand more than 8 deep in each other")


@pytest.mark.parametrize(
    ("command", "script", "extra"),
    [
        ("bash -c a", "a", ()),
        ("timeout 5m bash -euxo pipefail -c 'a b' _ c", "a b", ("_", "c")),
        ("bash -c -e a", "a", ()),
        ("/bin/sh -o pipefail -c a b", "a", ("b",)),
        ("docker run image bash -lc a", "a", ()),
        ("bash script.sh -c a", None, ()),
        ("bash -c", None, ()),
        ("bash --rcfile -c x", None, ()),
        ("which bash && x", None, ()),
        ("which bash", None, ()),
        ("echo bash -c a", None, ()),
    ],
)
def test_what_a_shell_is_given(command, script, extra):
    found = shell_arguments(shlex.split(command))
    assert (found.script, found.extra) == (script, extra) if found else script is None


# What reading shell with a regular expression got wrong, one by one.
def test_a_mark_without_a_space_and_with_an_equals_sign():
    assert [run.marks for run in pytest_runs('pytest -m"x"\npytest -m=x\npytest -svm x')] == ["x", "x", "x"]


def test_a_mark_on_the_next_line():
    (run,) = pytest_runs('pytest -m \\\n "x and y" \\\n tests/a.py')
    assert (run.marks, run.paths, run.problem) == ("x and y", ("tests/a.py",), None)


@pytest.mark.parametrize(
    ("written", "value"), [('"$MARK"', "$MARK"), ("`x`", "`x`"), ('"a and $(b)"', "a and $(b)")]
)
def test_a_mark_known_only_at_run_time_is_said(written, value):
    (run,) = pytest_runs(f"pytest -m {written} tests")
    assert run.marks is None
    assert run.problem == f'-m "{value}" is known only at run time'


def test_a_mark_in_a_comment_is_no_mark():
    (run,) = pytest_runs('# pytest -m "B200 and x"\npytest -m "L4" # -m "H100"')
    assert run.marks == "L4"


def test_a_negated_mark_reaches_the_expression_whole():
    (run,) = pytest_runs("pytest -m 'core_model and not (H100 or L4)'")
    assert expression.parse(run.marks).positive == {"core_model"}


def test_alternative_counts_reach_the_expression_whole():
    (run,) = pytest_runs('pytest -m "(cards_1 or cards_2) and not cards_4"')
    assert expression.parse(run.marks).positive == {"cards_1", "cards_2"}


def test_python_m_pytest_is_no_expression():
    (run,) = pytest_runs("python -m pytest tests/a.py")
    assert (run.marks, run.paths) == (None, ("tests/a.py",))


def test_an_expression_without_quotes_falls_apart_and_is_said():
    (run,) = pytest_runs("pytest -m a and b")
    assert (run.marks, run.paths) == ("a", ("and", "b"))
    assert "`-m a …` has no quotes around its expression" in run.problem


def test_omni_pr_qwen_image_the_marks_that_really_run():
    """The nested quotes leave `-m advanced_model` and no run level."""
    (run,) = pytest_runs(QWEN)
    assert (run.marks, run.run_level, run.line, run.inside) == ("advanced_model", None, 3, ("bash -c",))


@pytest.mark.parametrize(
    ("script", "paths"),
    [
        ("timeout -k 5 20m python3 -m pytest a", ("a",)),
        ("A=b CUDA_VISIBLE_DEVICES=0 pytest a", ("a",)),
        ("env A=b nice pytest a", ("a",)),
        ("coverage run --branch -m pytest a", ("a",)),
        ("torchrun --nproc-per-node 2 -m pytest a", ("a",)),
        ("pytest a --ignore b --ignore=c -k d -p no:e -n 2 -- f", ("a", "f")),
        ("PYTEST_ADDOPTS='-m x' pytest a", ("a",)),
        ("docker run image bash -c 'pytest a'", ("a",)),
        ("! pytest a", ("a",)),
        ("x/run_cov_split.sh --model-id m --offline a --online=b -- -m x c", ("a", "b", "c")),
        ("omni-ci cov split --model-id m --offline a -- -k x", ("a",)),
        ("python -m omni_ci cov split --model-id m --online a", ("a",)),
    ],
)
def test_the_paths_of_a_run(script, paths):
    (run,) = pytest_runs(script)
    assert run.paths == paths
    assert run.problem is None
    assert run.measures_coverage == ("split" in script)


def test_the_options_of_a_run():
    (run,) = pytest_runs("cd tests && PYTEST_ADDOPTS='-m x -k y' pytest --run-level=full_model -k z")
    assert (run.marks, run.keyword, run.run_level, run.folder) == ("x", "z", "full_model", "tests")


@pytest.mark.parametrize(
    "script",
    [
        "pip install pytest",
        "python -m pip install -U pytest",
        "echo pytest a",
        "which pytest",
        "rm -rf pytest",
        "[ -x pytest ]",
        "ls .cache/pytest",
        "command -v pytest",
        "cd pytest",
        "timeout -k 5 2m pip install pytest",
        "sudo -u ci apt-get -y install pytest",
        "uv pip install --system pytest",
        "uv tool install pytest",
        "uv add --group test pytest",
        "conda install -n test pytest",
        "find . -name pytest",
        "git clone x pytest",
        "docker pull pytest",
        "chmod +x tools/run_cov_split.sh",
    ],
)
def test_to_speak_of_pytest_is_not_to_run_it(script):
    assert pytest_runs(script) == ()


@pytest.mark.parametrize(
    ("script", "paths"),
    [
        ("uv run --extra test pytest -m x tests", ("tests",)),
        ("uv run --group test pytest -m x tests", ("tests",)),
        ("uv run --with pip pytest -m x tests", ("tests",)),
        ("uv tool run pytest -m x tests", ("tests",)),
        ("poetry run pytest -m x tests", ("tests",)),
        ("conda run -n test pytest -m x tests", ("tests",)),
        ("docker exec test pytest -m x tests", ("tests",)),
        ("docker run --rm test pytest -m x tests", ("tests",)),
        ("find tests more -name 'test_*.py' -exec pytest -m x {} +", ("tests", "more")),
        ("find tests -exec pytest -m x {} \\;", ("tests",)),
        ("git bisect run pytest -m x tests", ("tests",)),
        ("env -u A B=test nice -n 5 pytest -m x tests", ("tests",)),
        ("./install pytest -m x tests", ("tests",)),
        ("ls tests | xargs -n 1 pytest -m x", ()),
    ],
)
def test_a_word_that_names_an_environment_hides_no_run(script, paths):
    (run,) = pytest_runs(script)
    assert (run.marks, run.paths) == ("x", paths)


def test_a_run_that_may_be_misread_says_so():
    (run,) = pytest_runs("echo it's\npytest tests")
    assert run.problem == "the ' of line 1 is not closed"


@settings(max_examples=200)
@given(st.text(alphabet="a'\"\\ \t", max_size=20))
def test_quotes_are_read_as_the_standard_library_reads_them(text):
    try:
        expected = shlex.split(text)
    except ValueError:
        assert parse(f"x {text}").problem or text.endswith("\\")
        return
    assert words(f"x {text}") == [("x", *expected)]


@settings(max_examples=300)
@given(st.text(alphabet="pyt \n'\"\\$#&|;()<>{}`!=[]-0", max_size=60))
def test_any_script_is_read_without_an_error(text):
    read = parse(text)
    pytest_runs(f"pytest {text}")
    assert all(1 <= one.line <= text.count("\n") + 1 for one in read.commands)
