"""REFERENCE: attention as its formula reads, in float32; slow, and what other kernels are compared with."""

from __future__ import annotations

import math

import torch


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return the attention output, (batch, query length, heads, head size), in query's dtype.

    Shapes as in `registry.Kernel`. A query row whose keys are all masked gives zeros, as torch's SDPA does.
    """
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    q, k, v = (tensor.transpose(1, 2).to(wide) for tensor in (query, key, value))
    if enable_gqa:
        k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        # Query i sees keys 0..i, counted from the start when the lengths differ.
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if hidden else scores + attn_mask.to(wide)
    blind = scores.amax(dim=-1, keepdim=True) == -math.inf
    weights = torch.softmax(scores.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)
    return (weights @ v).transpose(1, 2).to(query.dtype)
