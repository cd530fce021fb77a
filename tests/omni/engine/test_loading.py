"""Checkpoints that are damaged in ways only their contents show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from omni import Omni
from omni.errors import ModelError

WEIGHTS = {
    "transformer": "diffusion_pytorch_model.safetensors",
    "vae": "diffusion_pytorch_model.safetensors",
    "text_encoder": "model.safetensors",
}


@pytest.fixture
def checkpoint(tiny_z_image: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_z_image, tmp_path / "model"))


def edit(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> str:
    weights = load_file(path)
    name = min(weights)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})
    return name


def refused(checkpoint: Path, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Omni(str(checkpoint), device="cpu")


@pytest.mark.parametrize("part", WEIGHTS)
def test_a_missing_weight_is_never_made_up(checkpoint: Path, part: str) -> None:
    name = edit(checkpoint / part / WEIGHTS[part], lambda weights: weights.pop(min(weights)))

    refused(checkpoint, rf"{part}: 1 weights are missing from its files, {name} first")


@pytest.mark.parametrize("part", WEIGHTS)
def test_a_weight_of_another_shape(checkpoint: Path, part: str) -> None:
    def widen(weights: dict[str, torch.Tensor]) -> None:
        weights[min(weights)] = torch.zeros(3, 3, 3)

    edit(checkpoint / part / WEIGHTS[part], widen)

    refused(checkpoint, r"cannot be loaded as ZImagePipeline")


@pytest.mark.parametrize("part", WEIGHTS)
def test_truncated_weights(checkpoint: Path, part: str) -> None:
    path = checkpoint / part / WEIGHTS[part]
    path.write_bytes(path.read_bytes()[:-1])

    refused(checkpoint, rf"{part}/{WEIGHTS[part]}: \d+ bytes, its header says \d+")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("transformer/config.json", {"n_heads": 3}, r"transformer/config\.json: ZImageTransformer2DModel cannot be built"),
        ("model_index.json", {"transformer": ["diffusers", "NoSuchModel"]}, r"transformer is 'NoSuchModel'"),
        ("model_index.json", {"tokenizer": ["transformers", "NoSuchTokenizer"]}, r"cannot be loaded as"),
        ("scheduler/scheduler_config.json", {"_class_name": 3, "shift": "x"}, r"cannot be loaded as"),
    ],
)  # fmt: skip
def test_configs_that_do_not_fit(checkpoint: Path, file: str, change: dict[str, Any], message: str) -> None:
    path = checkpoint / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    refused(checkpoint, message)


def test_code_beside_the_weights_is_not_run(checkpoint: Path) -> None:
    for place in ("pipeline.py", "transformer/transformer.py", "text_encoder/modeling_mine.py"):
        (checkpoint / place).write_text("raise SystemExit('ran code of a checkpoint')")
    path = checkpoint / "text_encoder/config.json"
    mine = {"auto_map": {"AutoModel": "modeling_mine.Mine"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | mine))

    Omni(str(checkpoint), device="cpu").close()
