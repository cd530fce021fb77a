"""A pytest plugin for projects that test on more than one kind of accelerator."""

from pytest_omni.marks import hardware_marks, hardware_test
from pytest_omni.servers.params import OmniServer, OmniServerParams

__all__ = ["OmniServer", "OmniServerParams", "hardware_marks", "hardware_test"]
