"""Checkpoints that are damaged in ways only their contents show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import DiffusionPipeline, ModelMixin
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from omni import Omni
from omni.engine.loading import load_pipeline
from omni.errors import InfrastructureError, ModelError
from omni.models.catalog import CATALOG
from omni.models.discovery import Checkpoint
from omni.platforms.devices import choose_device, detect

# The libraries have much to say about a damaged checkpoint; the one message of ours is enough.
pytestmark = pytest.mark.usefixtures("silence")
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


def load(checkpoint: Path) -> Any:
    """Load without the looks at files and index that come before."""
    device = choose_device("cpu", detect())
    return load_pipeline(Checkpoint(checkpoint, CATALOG["ZImagePipeline"]), device=device, dtype="float32")


@pytest.mark.parametrize("part", WEIGHTS)
def test_a_missing_weight_is_never_made_up(checkpoint: Path, part: str) -> None:
    name = edit(checkpoint / part / WEIGHTS[part], lambda weights: weights.pop(min(weights)))

    refused(checkpoint, rf"{part}: 1 weights are missing from its files, {name} first")


@pytest.mark.parametrize("part", WEIGHTS)
def test_a_weight_without_a_place_is_never_dropped(checkpoint: Path, part: str) -> None:
    edit(checkpoint / part / WEIGHTS[part], lambda weights: weights.update(extra=torch.zeros(1)))

    refused(checkpoint, rf"{part}: 1 weights in its files have no place in the \w+ .*, extra first")


@pytest.mark.parametrize(
    ("part", "fewer"),
    [("transformer", {"n_layers": 1}), ("text_encoder", {"num_hidden_layers": 1, "layer_types": None})],
)
def test_fewer_layers_than_the_file_has(checkpoint: Path, part: str, fewer: dict[str, Any]) -> None:
    path = checkpoint / part / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fewer))

    refused(checkpoint, rf"{part}: \d+ weights in its files have no place .*, layers\.1\.")


def test_the_head_of_a_language_model_is_spare(checkpoint: Path) -> None:
    path = checkpoint / "text_encoder" / WEIGHTS["text_encoder"]
    edit(path, lambda weights: weights.update({"lm_head.weight": torch.zeros(1)}))

    Omni(checkpoint, device="cpu").close()


@pytest.mark.parametrize("part", WEIGHTS)
def test_weights_that_are_no_numbers_draw_no_image(checkpoint: Path, part: str) -> None:
    def spoil(weights: dict[str, torch.Tensor]) -> None:
        weights.update({name: torch.full_like(value, torch.nan) for name, value in weights.items()})

    edit(checkpoint / part / WEIGHTS[part], spoil)
    engine = Omni(checkpoint, device="cpu")
    with pytest.raises(InfrastructureError, match="seed 3 has values that are no numbers"):
        engine.generate("a cat", seed=3, num_inference_steps=1)
    engine.close()


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
        ("transformer/config.json", {"n_layer": 1}, r"transformer/config\.json: ZImage.* no setting 'n_layer' \(did you mean 'n_layers'"),
        ("vae/config.json", {"scaling": 1}, r"vae/config\.json: AutoencoderKL of diffusers .* no setting 'scaling'"),
        ("model_index.json", {"transformer": ["diffusers", "NoSuchModel"]}, r"transformer is 'NoSuchModel'"),
        ("model_index.json", {"text_encoder": ["transformers", "BertModel"]}, r"text_encoder: \d+ weights are missing"),
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


@pytest.mark.parametrize(
    ("part", "name"), [("transformer", "diffusion_pytorch_model.bin"), ("text_encoder", "pytorch_model.bin")]
)
def test_pickled_weights_are_not_loaded(checkpoint: Path, part: str, name: str) -> None:
    path = checkpoint / part / WEIGHTS[part]
    torch.save(load_file(path), path.with_name(name))
    path.unlink()

    with pytest.raises(ModelError, match="cannot be loaded as ZImagePipeline"):
        load(checkpoint)


def test_a_part_with_code_of_its_own_is_not_loaded(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkpoint / "scheduler/mine.py").write_text("raise SystemExit('ran code of a checkpoint')")
    path = checkpoint / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scheduler": ["mine", "Mine"]}))
    monkeypatch.setattr("omni.models.discovery._LIBRARIES", ("diffusers", "transformers", "mine"))

    with pytest.raises(ModelError, match="trust_remote_code"):
        load(checkpoint)


def test_every_load_is_local_and_safe(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, dict[str, Any]] = {}
    for owner in (DiffusionPipeline, ModelMixin, PreTrainedModel):
        original = owner.__dict__["from_pretrained"].__func__

        def spy(cls: type, *where: Any, original: Any = original, **wanted: Any) -> Any:
            seen[cls.__name__] = wanted
            return original(cls, *where, **wanted)

        monkeypatch.setattr(owner, "from_pretrained", classmethod(spy))
    load(checkpoint)

    assert seen.keys() == {"ZImagePipeline", "ZImageTransformer2DModel", "AutoencoderKL", "Qwen3Model"}
    for wanted in seen.values():
        assert wanted["local_files_only"] is True
        assert wanted["use_safetensors"] is True
        assert not wanted.get("trust_remote_code")
