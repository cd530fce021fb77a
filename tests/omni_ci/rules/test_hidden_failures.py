"""The shapes in which a shell makes a red test run green, each found by a rule; and their likes that do not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

HIDING = [
    (["set +o errexit", "pytest tests", "cat log"], "CI407"),
    (["set +ex", "pytest tests", "cat log"], "CI407"),
    (["set +e", "pytest tests", "exit 0"], "CI407"),
    (["trap 'exit 0' EXIT", "pytest tests"], "CI407"),
    (["trap 'rm -f log; exit 0' EXIT", "pytest tests"], "CI407"),
    (["set +o pipefail", "pytest tests | tee log"], "CI406"),
    (["set -o pipefail; set +o pipefail; pytest tests | tee log"], "CI406"),
    (["set -o pipefail", "bash -c 'pytest tests | tee log'"], "CI406"),
    (["bash -c 'set -o pipefail; true'", "pytest tests | tee log"], "CI406"),
    (["pytest tests || true"], "CI404"),
    (["pytest tests || :"], "CI404"),
    (["pytest tests || exit 0"], "CI404"),
    (["pytest tests || RC=$$?", "exit 0"], "CI404"),
    (["pytest tests || RC=$$?", "echo $$RC"], "CI404"),
    (["pytest tests || rc=0", "exit $$rc"], "CI404"),
    (["rc=0; for i in a b; do pytest $$i || rc=1; done"], "CI404"),
    (["if ! pytest tests; then echo failed; fi"], "CI404"),
    (["if pytest tests; then echo passed; fi"], "CI404"),
    (["if pytest tests\nthen echo passed\nelse cat log\nfi"], "CI404"),
    (["pytest tests && echo ok || echo bad"], "CI404"),
    (["(pytest tests) || true"], "CI404"),
    (["{ pytest tests; } || cat log"], "CI404"),
    (["(pytest tests/a) || (cat log)"], "CI404"),
    (["bash -c 'pytest tests' || true"], "CI404"),
    (["pytest tests || cat log"], "CI404"),
    (["pytest tests || { cat log; ls; }"], "CI404"),
    (["pytest tests || logger x"], "CI404"),
    (["pytest tests || buildkite-agent annotate failed"], "CI404"),
    (["pytest tests | tee log || true"], "CI404"),
    (["pytest tests || [ $$? -eq 5 ]"], "CI404"),
    (["pytest tests || test $$? = 5"], "CI404"),
    (["while ! pytest tests; do sleep 1; done"], "CI404"),
    (["until pytest tests; do sleep 1; done"], "CI404"),
    (["until pytest tests || [ $$n -ge 3 ]; do n=$$((n+1)); done"], "CI404"),
    (["for i in 1 2 3; do pytest tests && break; done"], "CI404"),
    (["for i in 1 2 3; do pytest tests && exit 0; done; exit 1"], "CI404"),
    (["! pytest tests"], "CI404"),
    (["uv run --extra test pytest tests || true"], "CI404"),
    (["! (pytest tests)"], "CI404"),
    (["! { pytest tests; }"], "CI404"),
    (["! bash -c 'pytest tests'"], "CI404"),
    (["! pytest tests || exit 1"], "CI404"),
    (["(pytest tests; cat log) || true"], "CI404"),
    (["{ pytest tests; cat log; } || exit 1"], "CI404"),
    (["for i in a b; do pytest $$i; done || exit 1"], "CI404"),
    (["f() { pytest tests; }", "f || true"], "CI404"),
    (["f() { pytest tests; }; if f; then echo passed; fi"], "CI404"),
    (["function f { pytest tests; }; ! f"], "CI404"),
    (["f() { pytest tests; }; g() { f; }", "g || cat log"], "CI404"),
    (["f() { pytest tests || return 0; }; f"], "CI404"),
    (["eval 'pytest tests' || true"], "CI404"),
    (["time pytest tests || true"], "CI404"),
    (["case $$A in 1) pytest tests || true;; esac"], "CI404"),
    (["[ -d tests ] && pytest tests || echo none"], "CI404"),
    (["while true; do pytest tests && break; done"], "CI404"),
    (["while :; do if pytest tests; then break; fi; done"], "CI404"),
    (["for i in 1 2 3; do if pytest tests; then break; fi; done"], "CI404"),
    (["for i in 1 2 3; do pytest tests && break || sleep 0; done"], "CI404"),
    (["for i in 1 2 3; do (pytest tests) && break; done"], "CI404"),
    (["for i in 1 2 3; do { pytest tests; } && break; done"], "CI404"),
    (["pytest tests || (echo failed; exit 0)"], "CI404"),
    (["pytest tests ||\n  true"], "CI404"),
    (["pytest tests || { rc=$$?; echo $$rc; }"], "CI404"),
    (["pytest tests && echo passed", "cat log"], "CI404"),
    (["pytest tests && pytest more", "cat log"], "CI404"),
    (["{ pytest tests && echo passed; }", "cat log"], "CI404"),
    (["x=$$(pytest tests) || true"], "CI404"),
    (["set -o pipefail; pytest tests | tee log && echo ok || echo bad"], "CI404"),
    (["if true && pytest tests; then echo passed; fi"], "CI404"),
    (["if (pytest tests); then echo passed; fi"], "CI404"),
    (["(set +e; pytest tests; cat log)"], "CI407"),
    (["{ set +e; pytest tests; cat log; }"], "CI407"),
    (["set +e; pytest tests; rc=$$?; exit 0"], "CI407"),
    (["set +e", "(pytest tests)", "cat log"], "CI407"),
    (["set +e", "{ pytest tests; }", "cat log"], "CI407"),
    (["trap 'exit 0' ERR", "pytest tests"], "CI407"),
    (["trap 'true; exit 0' 0", "pytest tests"], "CI407"),
    (["finish() { cat log; exit 0; }; trap finish EXIT", "pytest tests"], "CI407"),
    (["pytest tests |& tee log"], "CI406"),
    (["(pytest tests | tee log)"], "CI406"),
    (["nohup pytest tests &", "wait"], "CI403"),
    (["{ pytest tests; } &", "wait"], "CI403"),
    (["(pytest tests) &", "wait"], "CI403"),
    (["bash -c 'pytest tests; cat log'"], "CI402"),
    (["docker exec -e A=b box bash -c 'pytest tests; cat log'"], "CI402"),
    (["bash -c 'set -e; set +e; pytest tests; cat log'"], "CI402"),
    (["pytest tests &", "wait"], "CI403"),
]
ARRIVING = [
    ["pytest tests"],
    ["set +e", "pytest tests"],
    ["set +e", "set -o errexit", "pytest tests", "cat log"],
    ["set -euo pipefail", "pytest tests | tee log"],
    ["set -o pipefail && pytest tests | tee log"],
    ["bash -euo pipefail -c 'pytest tests | tee log'"],
    ["set -o pipefail", "(pytest tests | tee log)"],
    ["trap 'rm -f log' EXIT", "pytest tests"],
    ["trap 'exit $$rc' EXIT", "pytest tests; rc=$$?"],
    ["trap 'if true; then exit 0; fi' TERM", "pytest tests"],
    ["pytest tests || exit 1"],
    ["pytest tests || exit"],
    ["pytest tests || exit $$?"],
    ["pytest tests || false"],
    ["pytest tests || { cat log; exit 1; }"],
    ["pytest tests || (cat log; false)"],
    ["(pytest tests) || { cat log; exit 1; }"],
    ["pytest tests || echo failed && false"],
    ["rc=0; pytest tests || rc=$$?", "cat log", "exit $$rc"],
    ['pytest tests || rc=$$?; exit "$${rc:-0}"'],
    ["rc=0; for i in a b; do pytest $$i || rc=1; done; exit $$rc"],
    ["failed=0; pytest tests || failed=1; [ $$failed -eq 0 ]"],
    ["if ! pytest tests; then cat log; exit 1; fi"],
    ["if pytest tests; then echo passed; else echo failed; exit 1; fi"],
    ["if pytest tests; then rc=0; else rc=$$?; fi", "exit $$rc"],
    ["if ! pytest tests; then pytest --lf tests; fi"],
    ['if [ -n "$$A" ]; then pytest tests; fi'],
    ["[ -d tests ] && pytest tests"],
    ["while read -r file; do pytest $$file; done < list"],
    ["for file in a b; do pytest $$file; done"],
    ["nvidia-smi || true", "pytest tests"],
    ["(nvidia-smi) || true; pytest tests"],
    ["pytest tests", "(nvidia-smi) || true"],
    ["{ pytest tests; }", "(nvidia-smi) || true"],
    ["if true; then pytest tests; fi", "nvidia-smi || true"],
    ["pytest tests", "if nvidia-smi; then ls; fi || true"],
    ["pip install pytest || true", "pytest tests"],
    ["! (! pytest tests)"],
    ["! pytest tests && exit 1"],
    ["f() { pytest tests; }", "f"],
    ["f() { pytest tests; }", "f || exit 1"],
    ["f() { pytest tests || return 1; }; f"],
    ["f() { pytest tests; }", "if ! f; then exit 1; fi"],
    ["f() { nvidia-smi; }", "f || true", "pytest tests"],
    ["{ pytest tests; }; { nvidia-smi; } || true"],
    ["(pytest tests); (nvidia-smi) || true"],
    ["{ pytest tests; }", "{ nvidia-smi; } || true"],
    ["(pytest tests; cat log)"],
    ["{ pytest tests; cat log; }"],
    ["{ nvidia-smi; pytest tests; } || exit 1"],
    ["pytest tests || (exit 1)"],
    ["if [ -d tests ]; then pytest tests; else echo none; fi"],
    ["for i in a b; do pytest $$i || exit 1; done"],
    ["cd tests && pytest ."],
    ["pytest tests && pytest more"],
    ["(pytest tests && echo passed)", "cat log"],
    ["pytest tests && echo passed", "[ $$? = 0 ]"],
    ['passed=; pytest tests && passed=1; [ -n "$$passed" ]'],
    ["if true; then pytest tests && echo passed; else echo none; fi"],
    ["true && pytest tests", "cat log"],
    ["trap 'cat log' EXIT; pytest tests"],
    ["trap 'rc=$$?; cat log; exit $$rc' EXIT; pytest tests"],
    ["trap 'cat log' ERR", "pytest tests"],
    ["finish() { cat log; }; trap finish EXIT", "pytest tests"],
    ["pytest tests; exit 0"],
    ["pytest tests &", "wait $$!"],
    ["(nvidia-smi) &", "pytest tests"],
    ["bash -c 'pytest tests'; true"],
    ["pytest tests || { rc=$$?; exit $$rc; }"],
    ["case $$A in 1) pytest tests;; esac"],
    ['[ -z "$$A" ] || pytest tests'],
    ["until pytest tests; do exit 1; done"],
    ["(set +e; pytest tests)", "cat log"],
    ["(set +e; nvidia-smi; true)", "pytest tests", "cat log"],
    ["set +e; pytest tests; rc=$$?; cat log; exit $$rc"],
    ["x=$$(pytest tests)"],
    ["ls | xargs pytest"],
]
NO_RUNS = [
    ["pytest --collect-only || true"],
    ["! grep -q pytest log"],
]
# What a shell finds here: a pytest that fails, and programs that hand on, pass or fail as they do where they are.
PROGRAMS = {
    "pytest": """echo run >>"$RUNS"
if [ -n "$PASSES_LATER" ] && [ "$(wc -l <"$RUNS")" -gt 1 ]; then exit 0; fi
exit "$STATUS\"""",
    "uv": 'while [ "$1" != pytest ]; do shift; done; exec "$@"',
    "docker": 'while [ "$1" != bash ]; do shift; done; exec "$@"',
    "logger": "true",
    "buildkite-agent": "true",
    "nvidia-smi": "exit 1",
    "pip": "exit 1",
}


@pytest.fixture(scope="module")
def status_of(tmp_path_factory):
    """Return the status of commands where the agent runs them, and whether they ran a test."""
    folder = tmp_path_factory.mktemp("shapes")
    for name, text in PROGRAMS.items():
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)

    def run(commands: list[str], *, status: int = 1, passes_later: bool = False) -> tuple[int, bool]:
        cwd = folder / "checkout"
        shutil.rmtree(cwd, ignore_errors=True)
        (cwd / "tests").mkdir(parents=True)
        (cwd / "log").write_text("a line\n")
        (cwd / "list").write_text("a\n")
        runs = folder / "runs"
        runs.unlink(missing_ok=True)
        environ = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "A": "1",
            "RUNS": str(runs),
            "STATUS": str(status),
        }
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(commands).replace("$$", "$")],
            env={**environ, "PASSES_LATER": "1" if passes_later else ""},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=30,
        )
        return done.returncode, runs.exists()

    return run


def repeats(commands: list[str]) -> bool:
    """Return whether the shape is one of a loop, in which what failed once is tried again."""
    return any(
        word in " ".join(commands)
        for word in ("while ", "until ", "for i in 1 2 3", "for i in a b; do pytest $$i; done ||")
    )


@pytest.mark.parametrize(("commands", "code"), HIDING, ids=[" ; ".join(one) for one, _ in HIDING])
def test_a_shape_that_hides_a_red_run_is_found(asked, commands, code):
    found = asked(code, f"- {{label: A, commands: {json.dumps(commands)}}}")
    assert [(one.code, one.subject) for one in found] == [(code, ".buildkite/cuda/test-ready.yml#a")]


@pytest.mark.parametrize(("commands", "code"), HIDING, ids=[" ; ".join(one) for one, _ in HIDING])
def test_what_is_found_is_green_with_red_tests_in_a_real_shell(status_of, commands, code):
    status = 5 if "5" in commands[0] else 1
    assert status_of(commands, status=status, passes_later=repeats(commands)) == (0, True), code


@pytest.mark.parametrize("commands", ARRIVING, ids=" ; ".join)
def test_what_is_not_found_is_red_with_red_tests_in_a_real_shell(status_of, commands):
    status, ran = status_of(commands)
    assert ran
    assert status != 0


@pytest.mark.parametrize("commands", [*ARRIVING, *NO_RUNS], ids=" ; ".join)
def test_a_shape_in_which_a_red_run_arrives_is_none(asked, commands):
    steps = f"- {{label: A, commands: {json.dumps(commands)}}}"
    found = {code: asked(code, steps) for code in ("CI402", "CI403", "CI404", "CI406", "CI407")}
    assert {code: [one.message for one in some] for code, some in found.items() if some} == {}
