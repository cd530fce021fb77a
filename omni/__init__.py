"""A diffusion and omni-modality runtime on top of diffusers; the engine is loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omni.engine.engine import Omni as Omni
    from omni.engine.request import ImageRequest as ImageRequest
    from omni.engine.request import ImageResult as ImageResult

# Public name -> where it lives. Nothing here costs an import until it is asked for: `omni --help` stays free of torch.
_EXPORTS = {
    "ImageRequest": "omni.engine.request",
    "ImageResult": "omni.engine.request",
    "Omni": "omni.engine.engine",
}

__all__ = ["ImageRequest", "ImageResult", "Omni"]


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'omni' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
