from __future__ import annotations

import pytest

from omni.attention import registry
from omni.attention.registry import BACKENDS, BackendRow, load, validate
from omni.config.attention import ENVIRONMENT, AttentionConfig, from_environment, parse
from omni.errors import AttentionError
from omni.models.catalog import CATALOG

ROLES = CATALOG["ZImagePipeline"].role_names


@pytest.mark.parametrize("name", BACKENDS)
def test_every_row_leads_to_a_kernel(name: str) -> None:
    assert callable(load(name))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (parse("REFRENCE"), r"--diffusion-attention-config: unknown attention backend 'REFRENCE' \(did you mean 'REFERENCE'\?\)"),
        (parse({"per_role": {"self": {"backend": "x"}}}), r"per_role\.self\.backend: unknown .* valid: TORCH_SDPA, REFERENCE, auto"),
        (from_environment(None, "torch-sdpa", {}), r"--diffusion-attention-backend: .*did you mean 'TORCH_SDPA'"),
        (from_environment(None, None, {ENVIRONMENT: "SDPA"}), rf"{ENVIRONMENT}: unknown attention backend 'SDPA'"),
        (parse({"per_role": {"slef": "REFERENCE"}}), r"per_role\.slef: .*did you mean 'self'"),
        (parse({"per_role": {"ltx2": {"audio_to_video": "REFERENCE"}}}), r"no attention role .* valid: z_image\.self, "),
        (parse({"per_role": {"self": {"bakend": "REFERENCE"}}}), r"per_role\.self\.bakend: this pipeline has no"),
    ],
)  # fmt: skip
def test_wishes_that_cannot_be_honoured(config: AttentionConfig, message: str) -> None:
    with pytest.raises(AttentionError, match=message):
        validate(config, roles=ROLES, platform="cpu")


def test_wishes_that_can() -> None:
    validate(
        parse({"default": "torch_sdpa", "per_role": {"self": "REFERENCE", "z_image.self": "auto"}}),
        roles=ROLES,
    )


def test_roles_are_not_judged_before_the_pipeline_is_known() -> None:
    validate(parse({"per_role": {"ltx2.audio_to_video": "REFERENCE"}}))


def test_a_backend_of_another_platform_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    row = BackendRow("omni.attention.backends.sdpa:attend", frozenset({"cuda", "rocm"}))
    monkeypatch.setitem(registry.BACKENDS, "ELSEWHERE", row)

    validate(parse("ELSEWHERE"), platform="cuda")
    with pytest.raises(AttentionError, match="ELSEWHERE does not run on cpu, only on cuda, rocm"):
        validate(parse("ELSEWHERE"), platform="cpu")
