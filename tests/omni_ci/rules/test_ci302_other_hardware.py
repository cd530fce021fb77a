from __future__ import annotations

H100 = """\
import pytest
from pytest_omni import hardware_test

@hardware_test(res={"cuda": "H100"})
def test_big(): pass

@hardware_test(res={"cuda": ["L4", "H100"]})
def test_either(): pass

@pytest.mark.cuda
def test_any(): pass
"""
BOTH = """\
schema: 1
fragments:
  l4_1: {agents: {queue: l4}}
  h100_1: {agents: {queue: h100}}
"""


def test_a_test_for_a_device_that_none_of_its_steps_has_is_found(asked):
    steps = """
        - {label: A, mirror_hardwares: l4_1, commands: [pytest tests]}
        - {label: B, mirror_hardwares: l4_2, commands: [pytest tests/test_big.py]}
    """
    (one,) = asked("CI302", steps, {"tests/test_big.py": H100})
    assert (one.file, one.line) == ("tests/test_big.py", 5)
    assert one.message == (
        "tests/test_big.py::test_big needs cuda H100; "
        "the steps that select it are 'A' (l4_1), 'B' (l4_2): always skipped"
    )


def test_a_test_that_one_step_can_run_is_fine(found):
    steps = """
        - {label: A, mirror_hardwares: l4_1, commands: [pytest tests]}
        - {label: B, mirror_hardwares: h100_1, commands: [pytest tests]}
    """
    files = {"tests/test_big.py": H100, ".buildkite/presets.yml": BOTH}
    assert found("CI302", steps, files) == []


def test_a_test_that_the_marks_leave_out_is_fine(found):
    steps = "- {label: A, mirror_hardwares: l4_1, commands: [\"pytest tests -m 'cuda and not H100'\"]}"
    assert found("CI302", steps, {"tests/test_big.py": H100}) == []
