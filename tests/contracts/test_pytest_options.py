"""What the orchestrator knows of the plugin's command line is what the plugin has: the two never import each other."""

from __future__ import annotations

from omni_ci.shell.invocations import invocations
from pytest_omni.options import OPTIONS, Kind


def test_the_value_of_our_options_is_no_test_path():
    words = {}
    for option in OPTIONS:
        value = [] if option.kind is Kind.SWITCH else ["tests/no_path.py"]
        command = " ".join(["pytest", option.flag, *value, "tests/a.py"])
        words[option.flag] = invocations((command,)).words
    assert words == {option.flag: ("tests/a.py",) for option in OPTIONS}
