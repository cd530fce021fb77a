"""Checkpoints and engines that many runtime tests share."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omni.config.attention import ENVIRONMENT

if TYPE_CHECKING:
    from omni import Omni

WEIGHTS = "diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="session")
def z_image_engine(tiny_z_image: Path) -> Iterator[Omni]:
    """One engine of the tiny Z-Image on the CPU for the whole session; leave it as you find it."""
    from omni import Omni

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENVIRONMENT, raising=False)
        engine = Omni(str(tiny_z_image), device="cpu")
    yield engine
    engine.close()


@pytest.fixture
def paper_checkpoint(tmp_path: Path) -> Path:
    """A Z-Image folder made of JSON and two real, small safetensors files: enough for all that reads no weights."""
    folder = tmp_path / "paper"
    write_json(
        folder / "model_index.json",
        {
            "_class_name": "ZImagePipeline",
            "transformer": ["diffusers", "ZImageTransformer2DModel"],
            "vae": ["diffusers", "AutoencoderKL"],
            "text_encoder": ["transformers", "Qwen3Model"],
            "tokenizer": ["transformers", "Qwen2Tokenizer"],
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        },
    )
    for part in ("text_encoder", "tokenizer", "scheduler"):
        (folder / part).mkdir()
    write_json(folder / "transformer/config.json", {"axes_lens": [1024, 48, 32]})
    write_json(folder / "vae/config.json", {"block_out_channels": [8, 8, 8, 8]})
    for part in ("transformer", "vae"):
        write_safetensors(folder / part / WEIGHTS)
    return folder


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def write_safetensors(path: Path) -> None:
    header = json.dumps({"weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
