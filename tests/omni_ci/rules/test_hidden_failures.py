"""The shapes in which a shell makes a red test run green, each found by a rule; and their likes that do not."""

from __future__ import annotations

import json

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
    ["pytest --collect-only || true"],
    ["! grep -q pytest log"],
]


@pytest.mark.parametrize(("commands", "code"), HIDING, ids=[" ; ".join(one) for one, _ in HIDING])
def test_a_shape_that_hides_a_red_run_is_found(asked, commands, code):
    found = asked(code, f"- {{label: A, commands: {json.dumps(commands)}}}")
    assert [(one.code, one.subject) for one in found] == [(code, ".buildkite/cuda/test-ready.yml#a")]


@pytest.mark.parametrize("commands", ARRIVING, ids=" ; ".join)
def test_a_shape_in_which_a_red_run_arrives_is_none(asked, commands):
    steps = f"- {{label: A, commands: {json.dumps(commands)}}}"
    found = {code: asked(code, steps) for code in ("CI402", "CI403", "CI404", "CI406", "CI407")}
    assert {code: [one.message for one in some] for code, some in found.items() if some} == {}
