from __future__ import annotations


def test_a_failure_in_a_shell_of_its_own_is_found(found):
    steps = """
        - label: A
          commands:
            - bash -c 'pytest tests/a; pytest tests/b'
            - |
              timeout 40m bash -c "
                cd tests
                pytest b
              "
    """
    assert found("CI402", steps) == [
        "step 'A': `bash -c` hides a failure of `cd tests`: put `set -e` first in it",
        "step 'A': `bash -c` hides a failure of `pytest tests/a`: put `set -e` first in it",
    ]


def test_a_subshell_hides_under_a_runner_only(found):
    commands = "(pytest tests/a; pytest tests/b)"
    cuda = f"- {{label: A, mirror_hardwares: l4_1, commands: ['{commands}']}}"
    assert found("CI402", cuda) == []
    amd = {
        ".buildkite/amd/test-ready.yml": f"steps:\n- {{label: A, mirror_hardwares: mi300_1, commands: ['{commands}']}}\n"
    }
    assert found("CI402", "", amd) == [
        "step 'A': `( … )` hides a failure of `pytest tests/a`: put `set -e` first in it"
    ]


def test_errexit_a_list_and_what_may_fail_are_fine(found):
    steps = """
        - label: A
          commands:
            - bash -c 'set -eu; pytest a; pytest b'
            - bash -ec 'pytest a; pytest b'
            - bash -c 'pytest a && pytest b'
            - bash -c 'export X=1; echo hello; pytest a'
            - bash -c 'pytest a; rc=$$?; exit $$rc'
            - bash -c 'pytest a'
    """
    assert found("CI402", steps) == []
