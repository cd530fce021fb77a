"""Z-Image through the library, as a script would use it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from omni import Omni

# The device is named, so that a lane without it fails instead of measuring the CPU.
PLATFORMS = [
    pytest.param("cpu", marks=[pytest.mark.cpu]),
    pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.gpu]),
    pytest.param("rocm", marks=[pytest.mark.rocm, pytest.mark.gpu]),
]
pytestmark = [
    pytest.mark.core_model,
    pytest.mark.diffusion,
    pytest.mark.parametrize("omni", PLATFORMS, indirect=True),
]


@pytest.fixture(scope="module")
def omni(request: pytest.FixtureRequest, tiny_z_image: Path) -> Iterator[Omni]:
    from omni import Omni

    engine = Omni(str(tiny_z_image), device=request.param)
    yield engine
    engine.close()


def png(omni: Omni, **options: object) -> list[bytes]:
    encoded = []
    for image in omni.generate("a red cube", num_inference_steps=2, **options).images:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        encoded.append(buffer.getvalue())
    return encoded


def test_a_prompt_becomes_an_image_of_the_size_asked_for(omni: Omni) -> None:
    result = omni.generate("a red cube", size="48x32", num_inference_steps=2, seed=1)
    assert [image.size for image in result.images] == [(48, 32)]
    assert (result.width, result.height, result.steps, result.seeds) == (48, 32, 2, (1,))
    assert any(low < high for low, high in result.images[0].getextrema())  # not one flat colour


def test_the_default_size_is_the_checkpoints(omni: Omni) -> None:
    (image,) = omni.generate("a red cube", num_inference_steps=1, seed=1).images
    assert image.size == omni.sizes.default == (64, 64)


def test_the_same_seed_gives_the_same_image(omni: Omni) -> None:
    first = png(omni, seed=7)
    assert png(omni, seed=7) == first
    assert png(omni, seed=8) != first


def test_image_i_is_the_image_of_seed_plus_i(omni: Omni) -> None:
    alone = [png(omni, seed=seed)[0] for seed in (40, 41)]
    assert png(omni, seed=40, n=2) == alone


def test_every_attention_module_is_accounted_for(omni: Omni) -> None:
    assert "TORCH_SDPA" in str(omni.report)
