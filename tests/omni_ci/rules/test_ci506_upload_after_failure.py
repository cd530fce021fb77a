from __future__ import annotations


def test_agent_stack_k8s203_an_upload_that_a_failed_test_prevents_is_found(found):
    """The artifacts of a failed step were missing, just when somebody wanted to read them."""
    steps = "- {label: A, mirror_hardwares: l4_1, commands: [pytest tests, buildkite-agent artifact upload log.txt]}"
    assert found("CI506", steps) == [
        "step 'A': uploads log.txt below its tests, where a failed test ends the commands"
    ]


def test_a_kept_status_a_trap_a_runner_and_an_upload_before_are_fine(found):
    steps = """
        - {label: A, commands: ["set +e; pytest a; rc=$$?; buildkite-agent artifact upload x; exit $$rc"]}
        - {label: B, commands: ["trap 'buildkite-agent artifact upload x' EXIT", pytest b]}
        - {label: C, commands: [buildkite-agent artifact upload x, pytest c]}
        - {label: D, commands: ["pytest d || rc=$$?", buildkite-agent artifact upload x]}
    """
    assert found("CI506", steps) == []
    amd = "steps:\n- {label: A, mirror_hardwares: mi300_1, commands: [pytest a, buildkite-agent artifact upload x]}\n"
    assert found("CI506", "", {".buildkite/amd/test-ready.yml": amd}) == []
