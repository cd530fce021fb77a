"""A pytest plugin for projects that test on more than one kind of accelerator."""

from pytest_omni.server import OmniServer, OmniServerParams

__all__ = ["OmniServer", "OmniServerParams"]
