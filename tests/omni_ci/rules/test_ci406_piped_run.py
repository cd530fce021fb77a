from __future__ import annotations

AMD = ".buildkite/amd/test-ready.yml"


def test_tests_whose_status_a_pipe_loses_are_found(found):
    assert found("CI406", "- {label: A, commands: [pytest tests 2>&1 | tee log]}") == [
        "step 'A': pipes its tests, and without `set -o pipefail` their status is lost"
    ]


def test_pipefail_a_runner_and_a_pipe_into_tests_are_fine(found):
    steps = """
        - {label: A, commands: [set -euo pipefail, "pytest tests | tee log"]}
        - {label: B, commands: ["bash -o pipefail -c 'pytest tests | tee log'"]}
        - {label: C, commands: [yes | pytest tests]}
    """
    assert found("CI406", steps) == []
    amd = "steps:\n- {label: A, mirror_hardwares: mi300_1, commands: [pytest tests | tee log]}\n"
    assert found("CI406", "", {AMD: amd}) == []
