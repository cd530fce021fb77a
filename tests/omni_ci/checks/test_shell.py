"""S13: shell that does something else than it looks like."""

from __future__ import annotations

import pytest

from omni_ci.checks.validation import validate

STEP = {"label": "x", "timeout_in_minutes": 5}
QWEN = """timeout 40m bash -c '
  export VLLM_IMAGE_FETCH_TIMEOUT=60
  pytest -s -v tests/e2e/online_serving/test_image.py -m 'advanced_model and cuda' --run-level 'advanced_model'
'
"""


def said(*commands):
    found = validate({"steps": [{**STEP, "commands": list(commands)}]}, origins={(0,): "a.yml:3"})
    return [str(one) for one in found if one.code == "S13"]


def test_omni01eb2298_qwen_image_nested_quotes_lose_the_marks_and_the_run_level():
    """pytest got `-m advanced_model` and no run level; green for months."""
    (found,) = said("echo first", QWEN)
    assert found.startswith(
        "a.yml:3: S13 step 'x': line 2 of its commands: `timeout 40m bash -c` takes one argument"
    )
    assert "tests/e2e/online_serving/test_image.py -m advanced_model`: `and`, `cuda" in found
    assert "`and`, `cuda --run-level advanced_model` are lost" in found
    assert (
        said(
            QWEN.replace("'advanced_model and cuda'", '"advanced_model and cuda"').replace(
                "'advanced_model'", "x"
            )
        )
        == []
    )


@pytest.mark.parametrize(
    "script",
    [
        "bash -c 'pytest \"$@\"' _ a b",
        "bash -c 'pytest $1' a b",
        "bash -c 'shift; pytest' a b",
        "bash -c 'echo $0' name",
        "bash -c 'pytest a' _",
        "bash -c 'pytest a'",
        "sh -c 'eval \"$${1}\"' _ x",
        "bash -euo pipefail -c 'a' && b c",
        "bash run.sh -c a b",
        "echo bash -c a b",
        "# bash -c a b",
    ],
)
def test_arguments_on_purpose_are_fine(script):
    assert said(script) == []


@pytest.mark.parametrize(
    "script", ["bash -c pytest tests", "sudo sh -c 'a' b", "x $(bash -c a b)", "bash -c 'bash -c a b'"]
)
def test_words_behind_a_script_are_lost(script):
    assert len(said(script)) == 1
    assert "lost" in said(script)[0]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo it's", "the ' of line 1 is not closed"),
        ("true\necho $(a", "the ( of line 2 is not closed"),
        ("cat <<EOF\nx", "the here-document 'EOF' is not closed"),
    ],
)
def test_what_no_shell_can_read_is_an_error(script, problem):
    (found,) = said(script)
    assert f"its commands cannot be read as shell: {problem}" in found


def test_an_expression_without_quotes_and_one_that_pytest_refuses():
    (torn,) = said("true", "pytest -m a and b")
    assert "line 2 of its commands: `-m a …` has no quotes around its expression" in torn
    (refused,) = said("pytest -m 'a and'")
    assert "pytest refuses -m 'a and': column 6: expected a marker's name" in refused


def test_a_script_is_judged_as_the_job_gets_it():
    assert said('bash -c \'for i in "$${A[@]}"; do pytest "$$i" -m "$$M"; done\'') == []


def test_where_a_runner_reads_the_commands_they_are_judged_too():
    step = {**STEP, "commands": ["bash run.sh"], "env": {"OMNI_COMMANDS": '["bash -c a b"]'}}
    (found,) = validate({"steps": [step]})
    assert "`bash -c` takes one argument" in found.message
