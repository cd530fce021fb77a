"""Both kernels against one another and against the formula; shapes are (batch, length, heads, head size)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from omni.attention.registry import BACKENDS, load

SDPA, REFERENCE = load("TORCH_SDPA"), load("REFERENCE")


def tensors(
    heads: int = 4, kv_heads: int = 4, queries: int = 5, keys: int = 7, **kind: Any
) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)

    def draw(length: int, count: int) -> torch.Tensor:
        return torch.randn(2, length, count, 8, generator=generator).to(**kind)

    return draw(queries, heads), draw(keys, kv_heads), draw(keys, kv_heads)


def boolean(*shape: int) -> torch.Tensor:
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[..., 0] = True
    return mask


CASES = [
    pytest.param({}, id="plain"),
    pytest.param({"is_causal": True}, id="causal"),
    pytest.param({"scale": 0.3}, id="scale"),
    pytest.param({"attn_mask": boolean(2, 1, 1, 7)}, id="keys masked"),
    pytest.param({"attn_mask": boolean(5, 7)}, id="mask for all"),
    pytest.param({"attn_mask": torch.linspace(-2, 2, 35).reshape(5, 7)}, id="additive mask"),
    pytest.param({"attn_mask": boolean(2, 4, 5, 7), "scale": 2.0}, id="mask per head, scale"),
]


@pytest.mark.parametrize("options", CASES)
def test_reference_agrees_with_torch(options: dict[str, Any]) -> None:
    q, k, v = tensors()

    torch.testing.assert_close(REFERENCE(q, k, v, **options), SDPA(q, k, v, **options), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("options", CASES)
def test_grouped_heads_agree(options: dict[str, Any]) -> None:
    q, k, v = tensors(kv_heads=2)
    both = [kernel(q, k, v, enable_gqa=True, **options) for kernel in (REFERENCE, SDPA)]

    assert both[0].shape == q.shape
    torch.testing.assert_close(*both, atol=2e-6, rtol=1e-5)


def test_reference_is_the_formula() -> None:
    q, k, v = tensors(heads=1, kv_heads=1, queries=1, keys=2)
    scores = [float(q[0, 0, 0] @ k[0, i, 0]) / math.sqrt(8) for i in range(2)]
    weights = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
    expected = weights[0] * v[0, 0, 0] + weights[1] * v[0, 1, 0]

    torch.testing.assert_close(REFERENCE(q, k, v)[0, 0, 0], expected)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_row_that_sees_no_key_is_zero(name: str) -> None:
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    out = load(name)(*tensors(), attn_mask=mask)

    assert (out[:, 2] == 0).all()
    assert out.isfinite().all()


def test_reference_does_not_hide_broken_inputs() -> None:
    q, k, v = tensors()
    q[0, 0, 0, 0] = math.nan

    assert REFERENCE(q, k, v)[0, 0, 0].isnan().all()


def test_reference_computes_in_float32_and_answers_in_the_callers_dtype() -> None:
    q, k, v = tensors(dtype=torch.bfloat16)
    out = REFERENCE(q, k, v)

    assert out.dtype == torch.bfloat16
    assert torch.equal(out, REFERENCE(q.float(), k.float(), v.float()).bfloat16())
