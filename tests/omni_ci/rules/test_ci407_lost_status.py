from __future__ import annotations


def test_a_status_that_the_next_command_replaces_is_found(found):
    steps = """
        - label: A
          commands: [set +e, pytest tests, buildkite-agent artifact upload log]
        - label: B
          commands: ["set +e; pytest a; exit 0"]
    """
    assert found("CI407", steps) == [
        "step 'A': loses the status of its tests: after `set +e`, `buildkite-agent artifact upload log` takes its place",
        "step 'B': loses the status of its tests: `exit 0` follows",
    ]


def test_exit_0_ends_a_runner_that_takes_the_commands_as_one_text(found):
    presets = """\
        schema: 1
        skus:
          mi300: {platform: rocm, sku: MI300, template: k8s-patch, cards: [1], queue: q, resource: amd.com/gpu,
                  runner: run.sh, test_commands: true}
    """
    amd = "steps:\n- {label: A, mirror_hardwares: mi300_1, commands: [pytest tests, exit 0]}\n"
    files = {".buildkite/presets.yml": presets, ".buildkite/amd/test-ready.yml": amd}
    assert found("CI407", "", files) == ["step 'A': loses the status of its tests: `exit 0` follows"]


def test_a_kept_status_the_last_command_and_a_shell_that_stops_are_fine(found):
    steps = """
        - {label: A, commands: ["set +e; pytest a; rc=$$?; cat log; exit $$rc"]}
        - {label: B, commands: [set +e, prepare, pytest b]}
        - {label: C, commands: [pytest c, exit 0]}
        - {label: D, commands: [set +e, prepare, set -e, pytest d, cat log]}
    """
    assert found("CI407", steps) == []
