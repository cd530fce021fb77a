"""The image equals the one of diffusers' own pipeline, run in a fresh process that imports nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from omni import Omni

# Longer than one block of 32 tokens, so that it and the empty negative prompt need an attention mask.
PROMPT = "a small red house beside a lake, drawn with a soft pencil, seen from above in the evening"
SEED, STEPS, WIDTH, HEIGHT = 7, 4, 96, 64
LIBRARY_ALONE = """
import sys
import numpy, torch
from diffusers import ZImagePipeline

model, prompt, out, device = sys.argv[1:5]
seed, steps, width, height = map(int, sys.argv[5:])
pipeline = ZImagePipeline.from_pretrained(model).to(device)
wanted = dict(prompt=prompt, width=width, height=height, num_inference_steps=steps)
draw = lambda kind: pipeline(**wanted, generator=torch.Generator("cpu").manual_seed(seed), output_type=kind).images[0]
numpy.savez(out, floats=draw("np"), pixels=numpy.asarray(draw("pil")))
assert not [name for name in sys.modules if name.split(".")[0] in ("omni", "omni_hardware", "pytest_omni")]
"""
# A ROCm build of torch answers to "cuda".
TORCH_DEVICES = {"cpu": "cpu", "cuda": "cuda", "rocm": "cuda"}

pytestmark = [
    pytest.mark.core_model,
    pytest.mark.diffusion,
    pytest.mark.parametrize(
        "platform",
        [
            pytest.param("cpu", marks=[pytest.mark.cpu]),
            pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.gpu]),
            pytest.param("rocm", marks=[pytest.mark.rocm, pytest.mark.gpu]),
        ],
        scope="module",
    ),
]


@pytest.fixture(scope="module")
def library_alone(platform: str, tiny_z_image: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    import numpy as np

    out = tmp_path_factory.mktemp("library") / "image.npz"
    numbers = map(str, (SEED, STEPS, WIDTH, HEIGHT))
    command = [
        sys.executable,
        "-c",
        LIBRARY_ALONE,
        str(tiny_z_image),
        PROMPT,
        str(out),
        TORCH_DEVICES[platform],
        *numbers,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with np.load(out) as arrays:
        return dict(arrays)


@pytest.fixture
def engine(platform: str, backend: str, tiny_z_image: Path) -> Iterator[Omni]:
    from omni import Omni

    with Omni(str(tiny_z_image), device=platform, dtype="float32", attention_backend=backend) as engine:
        yield engine
        assert {item.selection.backend for item in engine.report.bound} == {backend}


def drawn(engine: Omni) -> tuple[Any, Any]:
    """Return one image as floats before rounding and as pixels; every attention call went through our kernels."""
    import numpy as np

    from omni import ImageRequest

    request = ImageRequest(prompt=PROMPT, width=WIDTH, height=HEIGHT, num_inference_steps=STEPS, seed=SEED)
    floats = engine._generate_array(request)
    assert sum(engine.attention_calls().values()) == 4 * STEPS
    assert floats.std() > 0.05  # a picture, not a plain surface that any attention would give
    return floats, np.asarray(engine.generate(request).images[0])


@pytest.mark.parametrize("backend", ["TORCH_SDPA"])
def test_torch_sdpa_is_equal_bit_for_bit(library_alone: Any, engine: Omni) -> None:
    floats, pixels = drawn(engine)
    assert (floats == library_alone["floats"]).all()
    assert (pixels == library_alone["pixels"]).all()


@pytest.mark.parametrize("backend", ["REFERENCE"])
def test_reference_is_close_before_rounding(library_alone: Any, engine: Omni) -> None:
    floats, _ = drawn(engine)
    difference = abs(floats - library_alone["floats"]).max()
    assert 0 < difference < 1e-5  # exactly 0 would mean that the other kernel never ran
