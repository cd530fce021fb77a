from __future__ import annotations

import pytest

STEP = """
    - label: A
      retry: {{automatic: {automatic}}}
      commands: [{command}]
"""


@pytest.mark.parametrize(
    ("automatic", "what"),
    [
        ("true", "`automatic: true` repeats everything that fails"),
        ("[{exit_status: 1, limit: 2}]", "a retry of exit status 1 repeats failed tests"),
        ("[{exit_status: [-1, 1]}]", "a retry of exit status 1 repeats failed tests"),
        ("{limit: 2}", "a retry of every exit status repeats failed tests"),
        ('[{exit_status: "*"}]', "a retry of every exit status repeats failed tests"),
        ("[{signal_reason: none}]", "a retry of every exit status repeats failed tests"),
        ('[{exit_status: "*", signal: "*"}]', "a retry of every exit status repeats failed tests"),
        ('[{exit_status: 1, signal_reason: "*"}]', "a retry of exit status 1 repeats failed tests"),
    ],
)
def test_lmcache3816_a_retry_of_failed_tests_is_found(found, automatic, what):
    """A blanket retry on status 1 hid failures of one run in two."""
    assert found("CI203", STEP.format(automatic=automatic, command="pytest tests")) == [f"step 'A': {what}"]


@pytest.mark.parametrize(
    "automatic", ["false", "[{exit_status: -1}, {exit_status: 128}]", "[{signal_reason: agent_stop}]", "[]"]
)
def test_fastvideo1571_a_retry_of_infrastructure_only_is_fine(found, automatic):
    """Without any retry, lost agents redden builds: what machines do may be repeated."""
    assert found("CI203", STEP.format(automatic=automatic, command="pytest tests")) == []


def test_what_runs_no_tests_may_be_repeated(found):
    assert found("CI203", STEP.format(automatic="true", command="make docs")) == []


def test_a_retry_of_a_preset_is_told_once_where_the_preset_is(asked):
    presets = """\
        schema: 1
        fragments:
          h100_1:
            agents: {queue: h100}
            retry: {automatic: [{exit_status: 1}]}
    """
    steps = """
        - {label: A, mirror_hardwares: h100_1, commands: [pytest a]}
        - {label: B, mirror_hardwares: h100_1, commands: [pytest b]}
    """
    (one,) = asked("CI203", steps, {".buildkite/presets.yml": presets})
    assert (one.file, one.line, one.message) == (
        ".buildkite/presets.yml", 3, "preset 'h100_1': a retry of exit status 1 repeats failed tests",
    )  # fmt: skip
