"""A pytest plugin for projects that test on more than one kind of accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_omni.marks import hardware_marks, hardware_test
from pytest_omni.servers.params import OmniServer, OmniServerParams

if TYPE_CHECKING:
    from pytest_omni.cards.devices import granted

__all__ = ["OmniServer", "OmniServerParams", "granted", "hardware_marks", "hardware_test"]


def __getattr__(name: str) -> Any:
    """Return ``granted``: its module is for armed sessions, and importing this one must stay cheap."""
    if name == "granted":
        from pytest_omni.cards.devices import granted

        return granted
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
