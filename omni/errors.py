"""The runtime's errors: the shared tree, and what a checkpoint, a device or a request adds to it.

OmniError                    exit 2
├── InputError               exit 2
│   ├── ModelError           the folder or hub id is not a checkpoint this runtime can serve
│   ├── AttentionError       the attention configuration cannot be honoured as written
│   └── RequestError         one field of a request; `param` names it for an HTTP error body
│       └── SizeError        an image size
├── InfrastructureError      exit 4
│   └── DeviceError          the asked device is not there
└── Cancelled                the caller asked to stop; raised between denoising steps
"""

from __future__ import annotations

from omni_hardware.errors import (
    CheckError,
    InfrastructureError,
    InputError,
    OmniError,
    did_you_mean,
    nearest,
    strip_controls,
)

__all__ = [
    "AttentionError",
    "Cancelled",
    "CheckError",
    "DeviceError",
    "InfrastructureError",
    "InputError",
    "ModelError",
    "OmniError",
    "RequestError",
    "SizeError",
    "did_you_mean",
    "nearest",
    "strip_controls",
]


class ModelError(InputError):
    """The model argument does not lead to a checkpoint that can be served."""


class AttentionError(InputError):
    """The attention configuration is malformed, or names what this model or build does not have."""


class RequestError(InputError):
    """One field of a request is wrong; *param* is its name, None when no single field is to blame."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class SizeError(RequestError):
    """An image size that is malformed, too large, or that the pipeline cannot draw."""

    def __init__(self, message: str, *, param: str | None = "size") -> None:
        super().__init__(message, param=param)


class DeviceError(InfrastructureError):
    """The asked device is not present; nothing was loaded, and nothing else is used in its place."""


class Cancelled(OmniError):  # noqa: N818 - an outcome, not a mistake
    """The caller asked to stop and the engine did, between two steps; the engine stays usable."""

    exit_code = 4
