"""The bridge on real diffusers modules: every call arrives where the report says, and nothing else changes."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import ZImagePipeline
from diffusers.models import attention_dispatch
from diffusers.models.attention_processor import Attention, AttnProcessor2_0
from torch import nn

from omni.attention import bridge_diffusers, registry
from omni.attention.bridge_diffusers import bind, plan
from omni.attention.registry import BackendRow
from omni.config.attention import AttentionConfig, parse
from omni.errors import AttentionError, InfrastructureError
from omni.models.catalog import CATALOG

ROW = CATALOG["ZImagePipeline"]
STEPS = 2
MEMBERS = {*attention_dispatch.AttentionBackendName.__members__}
NATIVE = attention_dispatch.AttentionBackendName.NATIVE


@pytest.fixture
def pipeline(tiny_z_image: Path) -> Any:
    pipeline = ZImagePipeline.from_pretrained(str(tiny_z_image), local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def draw(pipeline: Any) -> torch.Tensor:
    generator = torch.Generator("cpu").manual_seed(1)
    return pipeline(
        "a cat", height=64, width=64, num_inference_steps=STEPS, generator=generator, output_type="pt"
    ).images


def attach(pipeline: Any, config: AttentionConfig) -> Any:
    return bind(pipeline, ROW, plan({"transformer": pipeline.transformer}, ROW, config, platform="cpu"))


def test_every_module_is_accounted_for_and_every_call_counted(pipeline: Any) -> None:
    plain = draw(pipeline)
    binding = attach(pipeline, parse(None))

    assert {item.path: item.role for item in binding.report.bound} == {
        "transformer.noise_refiner.0.attention": "z_image.noise_refiner",
        "transformer.context_refiner.0.attention": "z_image.context_refiner",
        "transformer.layers.0.attention": "z_image.self",
        "transformer.layers.1.attention": "z_image.self",
    }
    assert binding.report.unreachable == ()
    assert torch.equal(draw(pipeline), plain)
    # Guidance puts both prompts into one batch: one call a module and step.
    assert binding.calls == {
        "z_image.noise_refiner": STEPS, "z_image.context_refiner": STEPS, "z_image.self": 2 * STEPS
    }  # fmt: skip


def test_each_role_runs_its_own_kernel(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = draw(pipeline)
    config = parse({"per_role": {"self": "REFERENCE", "z_image.context_refiner": "ZEROS"}})
    monkeypatch.setitem(registry.BACKENDS, "ZEROS", BackendRow(f"{__name__}:zeros"))
    monkeypatch.setattr(
        bridge_diffusers, "load", lambda name: zeros if name == "ZEROS" else registry.load(name)
    )
    binding = attach(pipeline, config)
    backends = {item.role: item.selection.backend for item in binding.report.bound}

    assert backends == {
        "z_image.noise_refiner": "REFERENCE", "z_image.context_refiner": "ZEROS", "z_image.self": "REFERENCE"
    }  # fmt: skip
    assert not torch.allclose(draw(pipeline), plain, atol=1e-3)

    binding.release()
    close = attach(pipeline, parse("REFERENCE"))
    assert torch.allclose(draw(pipeline), plain, atol=1e-5)
    assert sum(close.calls.values()) == 4 * STEPS


def zeros(query: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.zeros_like(query)


def test_two_pipelines_in_a_process_do_not_meet(pipeline: Any, tiny_z_image: Path) -> None:
    other = ZImagePipeline.from_pretrained(str(tiny_z_image), local_files_only=True)
    other.set_progress_bar_config(disable=True)
    active = attention_dispatch._AttentionBackendRegistry._active_backend
    first, second = attach(pipeline, parse("REFERENCE")), attach(other, parse("TORCH_SDPA"))
    draw(pipeline)

    assert sum(first.calls.values()) == 4 * STEPS
    assert sum(second.calls.values()) == 0
    assert attention_dispatch._AttentionBackendRegistry._active_backend is active
    names = attention_dispatch.AttentionBackendName
    assert MEMBERS == {*names.__members__} == {member.name for member in names}


def test_the_process_wide_backend_does_not_reach_a_bound_pipeline(pipeline: Any) -> None:
    binding = attach(pipeline, parse(None))
    plain = draw(pipeline)
    member = bridge_diffusers._add_member("hijack", zeros)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_dispatch._AttentionBackendRegistry, "_active_backend", member)
        assert torch.equal(draw(pipeline), plain)
    assert binding.calls["z_image.self"] == 4 * STEPS


def test_release_leaves_no_trace(pipeline: Any) -> None:
    tables = bridge_diffusers._TABLES
    before = [dict(table) for table in tables]
    binding = attach(pipeline, parse("REFERENCE"))
    assert [dict(table) for table in tables] != before

    binding.release()
    binding.release()
    gc.collect()

    assert [dict(table) for table in tables] == before
    processors = [
        module.processor for module in pipeline.transformer.modules() if hasattr(module, "processor")
    ]
    assert {processor._attention_backend for processor in processors} == {None}


class Legacy(nn.Module):
    """A denoiser with one module that dispatches, one that does not, and one that no role knows."""

    def __init__(self, known: nn.Module, unknown: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleDict({"attention": known})])
        self.old = Attention(query_dim=8, heads=1, dim_head=8, processor=AttnProcessor2_0())
        self.stray = unknown
        self.plain = nn.MultiheadAttention(8, 1)


@pytest.fixture
def legacy(pipeline: Any) -> Legacy:
    return Legacy(pipeline.transformer.layers[0].attention, pipeline.transformer.layers[1].attention)


def test_unreachable_modules_are_listed_with_the_reason(legacy: Legacy) -> None:
    report = plan({"denoiser": legacy}, ROW, parse(None), platform="cpu")

    assert report.total == 4
    assert [item.path for item in report.bound] == ["denoiser.layers.0.attention"]
    because = {item.path: item.because for item in report.unreachable}
    assert because == {
        "denoiser.old": "AttnProcessor2_0 does not use diffusers' dispatcher",
        "denoiser.stray": "no role of ZImagePipeline matches this path",
        "denoiser.plain": "MultiheadAttention does not use diffusers' dispatcher",
    }
    text = str(report)
    assert text.startswith("attention: 4 modules = 1 bound by dispatch + 3 unreachable\n")
    assert all(path in text for path in because)


def test_an_explicit_wish_that_cannot_reach_every_module_is_an_error(legacy: Legacy) -> None:
    with pytest.raises(
        AttentionError, match=r"cannot reach every module of ZImagePipeline(.|\n)*denoiser\.old: "
    ):
        plan({"denoiser": legacy}, ROW, parse("TORCH_SDPA"), platform="cpu")
    with pytest.raises(AttentionError, match="0 modules"):
        plan({"denoiser": nn.Linear(1, 1)}, ROW, parse("TORCH_SDPA"), platform="cpu")


def test_modules_of_other_parts_keep_the_librarys_own_attention(pipeline: Any, legacy: Legacy) -> None:
    report = plan({"transformer": pipeline.transformer}, ROW, parse(None), platform="cpu")
    holder = type("Holder", (), {"components": {"transformer": pipeline.transformer, "vae": legacy}})()
    legacy.stray = type(legacy.stray)(
        query_dim=8, heads=1, dim_head=8, processor=type(legacy.stray.processor)()
    )
    bind(holder, ROW, report)

    assert legacy.stray.processor._attention_backend is NATIVE


def test_what_the_kernels_cannot_do_is_refused(pipeline: Any) -> None:
    binding = attach(pipeline, parse(None))
    tensor = torch.zeros(1, 2, 1, 8)
    member = pipeline.transformer.layers[0].attention.processor._attention_backend

    with pytest.raises(AttentionError, match=r"role z_image\.self: dropout and context parallelism"):
        attention_dispatch.dispatch_attention_fn(tensor, tensor, tensor, dropout_p=0.5, backend=member)
    assert binding.calls["z_image.self"] == 0


def test_a_dispatcher_that_changed_is_named(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_dispatch, "dispatch_attention_fn", lambda query, *_, **__: query)

    with pytest.raises(
        InfrastructureError, match=r"diffusers 0\..*does not take our backends; install 0\.39 to 0\.42"
    ):
        attach(pipeline, parse(None))


def test_the_seam_holds_under_compilation(pipeline: Any) -> None:
    plain = draw(pipeline)
    attach(pipeline, parse({"per_role": {"z_image.self": "REFERENCE"}}))
    pipeline.transformer.layers[0].attention = torch.compile(
        pipeline.transformer.layers[0].attention, backend="eager", fullgraph=True
    )

    assert torch.allclose(draw(pipeline), plain, atol=1e-5)
