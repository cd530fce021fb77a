from __future__ import annotations

import pytest

from omni.attention import registry
from omni.attention.selector import select
from omni.config.attention import AttentionSpec, Source, parse


@pytest.mark.parametrize(
    ("config", "backend", "source"),
    [
        ({"per_role": {"wan.cross": "A", "cross": "B"}, "default": "C"}, "A", Source.EXACT),
        ({"per_role": {"cross": "B"}, "default": "C"}, "B", Source.CATEGORY),
        ({"per_role": {"self": "B"}, "default": "C"}, "C", Source.DEFAULT),
        ({"per_role": {"self": "B"}}, "TORCH_SDPA", Source.PLATFORM),
    ],
)
def test_the_rule_that_chose_is_named(config: object, backend: str, source: Source) -> None:
    chosen = select("wan.cross", "cross", parse(config), platform="cpu")

    assert (chosen.backend, chosen.source) == (backend, source)
    assert (chosen.spec is None) == (source is Source.PLATFORM)
    assert chosen.because.startswith(source)


def test_the_reason_says_where_the_wish_was_written() -> None:
    config = parse({"per_role": {"wan": {"cross": {"backend": "REFERENCE"}}}})

    assert select("wan.cross", "cross", config, platform="cpu").because == (
        "per-role exact (per_role.wan.cross.backend)"
    )
    plain = parse({"default": AttentionSpec("REFERENCE")})
    assert select("wan.cross", "cross", plain, platform="cpu").because == "default"


def test_a_platform_may_have_its_own_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.PLATFORM_DEFAULTS, "npu", "REFERENCE")

    assert select("wan.self", "self", parse(None), platform="npu").backend == "REFERENCE"
    assert select("wan.self", "self", parse(None), platform="cpu").backend == "TORCH_SDPA"
