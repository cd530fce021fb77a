"""From a checkpoint on disk to a pipeline on its device: whole, in the asked dtype, and running no code of its own."""

from __future__ import annotations

from typing import Any

import diffusers
import torch
import transformers
from torch import nn

from omni.errors import InfrastructureError, ModelError, OmniError
from omni.models.discovery import INDEX, Checkpoint
from omni.models.silence import quiet_libraries
from omni.models.sizes import read_json
from omni.platforms.devices import Device

# diffusers 0.40 renamed the argument; each version warns about, or ignores, the other's name.
_DTYPE = "torch_dtype" if diffusers.__version__.startswith("0.39.") else "dtype"
_HF = "transformers"


def skeletons(checkpoint: Checkpoint) -> dict[str, nn.Module]:
    """Return the denoisers built from their configs without memory for weights: what they contain, before loading."""
    index = read_json(checkpoint.path / INDEX)
    return {name: _skeleton(checkpoint, name, index.get(name)) for name in checkpoint.row.denoisers}


def load_pipeline(checkpoint: Checkpoint, *, device: Device, dtype: str) -> Any:
    """Return diffusers' pipeline of *checkpoint*, on *device*, silent.

    Only safetensors are read and nothing is downloaded. Raises ModelError where the weights do not fit the model,
    InfrastructureError where the device cannot hold them.
    """
    pipeline_class = getattr(diffusers, checkpoint.row.pipeline)
    try:
        with quiet_libraries():
            pipeline = pipeline_class.from_pretrained(
                str(checkpoint.path),
                **_encoders(checkpoint, dtype),
                **{_DTYPE: getattr(torch, dtype)},
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
            )
        _require_whole(checkpoint, pipeline)
        pipeline.to(device.torch_type)
    except torch.OutOfMemoryError as fault:
        raise InfrastructureError(f"{checkpoint.path}: does not fit on {device.platform}: {fault}") from None
    except OmniError:
        raise
    except Exception as fault:  # what a damaged checkpoint makes the libraries raise has no common class
        raise ModelError(
            f"{checkpoint.path}: cannot be loaded as {checkpoint.row.pipeline}: {fault}"
        ) from fault
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _skeleton(checkpoint: Checkpoint, name: str, entry: object) -> nn.Module:
    path = checkpoint.path / name / "config.json"
    config = read_json(path)
    class_name = entry[1] if isinstance(entry, list) and len(entry) == 2 else None
    model_class = getattr(diffusers, str(class_name), None)
    if model_class is None:
        raise ModelError(
            f"{checkpoint.path / INDEX}: {name} is {class_name!r}, which diffusers does not have"
        )
    try:
        with torch.device("meta"):
            skeleton: nn.Module = model_class.from_config(config)
    except Exception as fault:
        raise ModelError(f"{path}: {class_name} cannot be built from it: {fault!r}") from fault
    return skeleton


def _encoders(checkpoint: Checkpoint, dtype: str) -> dict[str, Any]:
    """Return the models that come from transformers; it would fill missing weights with random ones and go on."""
    encoders = {}
    for name, entry in read_json(checkpoint.path / INDEX).items():
        if not isinstance(entry, list) or entry[:1] != [_HF]:
            continue
        found: Any = getattr(transformers, str(entry[1]), None)
        if not _is_model_class(found):
            continue
        encoder, info = found.from_pretrained(
            str(checkpoint.path / name),
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
        _require_none_missing(checkpoint, name, sorted(info["missing_keys"]))
        encoders[name] = encoder
    return encoders


def _is_model_class(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)


def _require_whole(checkpoint: Checkpoint, pipeline: Any) -> None:
    """Refuse a model with weights that its files did not bring: they would be random, or nowhere at all."""
    for name, part in pipeline.components.items():
        if isinstance(part, nn.Module):
            empty = [path for path, tensor in part.named_parameters() if tensor.is_meta]
            _require_none_missing(checkpoint, name, empty)


def _require_none_missing(checkpoint: Checkpoint, part: str, missing: list[str]) -> None:
    if missing:
        raise ModelError(
            f"{checkpoint.path / part}: {len(missing)} weights are missing from its files, {missing[0]} first; "
            "copy or download the checkpoint again"
        )
