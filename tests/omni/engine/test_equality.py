"""The image equals the one of diffusers' own pipeline, run in a fresh process that imports nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omni import ImageRequest, Omni

# Longer than one block of 32 tokens, so that it and the empty negative prompt need an attention mask.
PROMPT = "a small red house beside a lake, drawn with a soft pencil, seen from above in the evening"
SEED, STEPS, WIDTH, HEIGHT = 7, 4, 96, 64
LIBRARY_ALONE = """
import sys
import numpy, torch
from diffusers import ZImagePipeline

model, prompt, out = sys.argv[1:4]
seed, steps, width, height = map(int, sys.argv[4:])
pipeline = ZImagePipeline.from_pretrained(model)
wanted = dict(prompt=prompt, width=width, height=height, num_inference_steps=steps)
draw = lambda kind: pipeline(**wanted, generator=torch.Generator("cpu").manual_seed(seed), output_type=kind).images[0]
numpy.savez(out, floats=draw("np"), pixels=numpy.asarray(draw("pil")))
assert not [name for name in sys.modules if name.split(".")[0] in ("omni", "omni_hardware", "pytest_omni")]
"""
REQUEST = ImageRequest(
    prompt=PROMPT, width=WIDTH, height=HEIGHT, num_inference_steps=STEPS, seed=SEED
)  # fmt: skip


@pytest.fixture(scope="module")
def library_alone(tiny_z_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("library") / "image.npz"
    numbers = map(str, (SEED, STEPS, WIDTH, HEIGHT))
    subprocess.run(
        [sys.executable, "-c", LIBRARY_ALONE, str(tiny_z_image), PROMPT, str(out), *numbers],
        check=True,
        capture_output=True,
        timeout=120,
    )
    with np.load(out) as arrays:
        return dict(arrays)


def test_torch_sdpa_is_equal_bit_for_bit(library_alone: Any, z_image_engine: Omni) -> None:
    before = sum(z_image_engine.attention_calls().values())
    floats = z_image_engine._generate_array(REQUEST)
    calls = sum(z_image_engine.attention_calls().values()) - before

    assert {item.selection.backend for item in z_image_engine.report.bound} == {"TORCH_SDPA"}
    assert calls == 4 * STEPS
    assert np.array_equal(floats, library_alone["floats"])
    assert floats.std() > 0.05  # a picture, not a plain surface that any attention would give
    pixels = np.asarray(z_image_engine.generate(REQUEST).images[0])
    assert np.array_equal(pixels, library_alone["pixels"])


def test_reference_is_close_before_rounding(library_alone: Any, tiny_z_image: Path) -> None:
    with Omni(str(tiny_z_image), device="cpu", attention={"default": "REFERENCE"}) as engine:
        floats = engine._generate_array(REQUEST)
        assert {item.selection.backend for item in engine.report.bound} == {"REFERENCE"}
        assert sum(engine.attention_calls().values()) == 4 * STEPS
    difference = np.abs(floats - library_alone["floats"]).max()

    assert 0 < difference < 1e-5  # exactly 0 would mean that the other kernel never ran
