"""The attention backends this runtime has: one row a name, imported on first use. Torch-free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from omni.config.attention import AttentionConfig
from omni.errors import AttentionError, did_you_mean

if TYPE_CHECKING:
    import torch

Kernel = Callable[..., "torch.Tensor"]
"""(query, key, value, attn_mask, is_causal, scale, enable_gqa) -> output.

query is (batch, query length, heads, head size), key and value (batch, key length, key heads, head size); the
output has the shape of query. attn_mask is boolean (True attends) or additive, broadcastable to (batch, heads,
query length, key length).
"""


@dataclass(frozen=True, slots=True)
class BackendRow:
    """Where a kernel lives ("module:function") and on which platforms it runs; no platform named means all."""

    target: str
    platforms: frozenset[str] = frozenset()

    def runs_on(self, platform: str) -> bool:
        return not self.platforms or platform in self.platforms


BACKENDS: dict[str, BackendRow] = {
    "TORCH_SDPA": BackendRow("omni.attention.backends.sdpa:attend"),
    "REFERENCE": BackendRow("omni.attention.backends.reference:attend"),
}

# Platform -> its choice where nothing was asked for.
PLATFORM_DEFAULTS: dict[str, str] = {}
DEFAULT_BACKEND = "TORCH_SDPA"


def load(name: str) -> Kernel:
    """Return the kernel called *name*."""
    module, function = BACKENDS[name].target.split(":")
    kernel: Any = getattr(import_module(module), function)
    return kernel  # type: ignore[no-any-return]


def default_for(platform: str) -> str:
    """Return the backend a platform uses where nothing was asked for."""
    return PLATFORM_DEFAULTS.get(platform, DEFAULT_BACKEND)


def validate(
    config: AttentionConfig, *, roles: tuple[str, ...] | None = None, platform: str | None = None
) -> None:
    """Pass if every wish can be honoured; raises AttentionError naming the place, and the nearest valid name.

    Judged is as much as is known: backend names always, roles once the pipeline is, platforms once the device is.
    """
    for spec in config.specs:
        where = spec.origin or "attention config"
        if spec.backend not in BACKENDS:
            raise AttentionError(
                f"{where}: unknown attention backend {spec.backend!r}{did_you_mean(spec.backend, BACKENDS)}; "
                f"valid: {', '.join(BACKENDS)}, auto"
            )
        if platform is not None and not BACKENDS[spec.backend].runs_on(platform):
            able = ", ".join(sorted(BACKENDS[spec.backend].platforms))
            raise AttentionError(f"{where}: {spec.backend} does not run on {platform}, only on {able}")
    for role in config.per_role:
        if roles is not None and role not in roles:
            raise AttentionError(
                f"per_role.{role}: this pipeline has no attention role or category {role!r}"
                f"{did_you_mean(role, roles)}; valid: {', '.join(roles)}"
            )
