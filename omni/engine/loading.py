"""From a checkpoint on disk to a pipeline on its device: whole, in the asked dtype, and running no code of its own."""

from __future__ import annotations

import inspect
from typing import Any

import diffusers
import torch
import transformers
from torch import nn

from omni.errors import InfrastructureError, ModelError, OmniError, did_you_mean
from omni.models.discovery import INDEX, Checkpoint, components
from omni.models.silence import quiet_libraries
from omni.models.sizes import read_json
from omni.platforms.devices import Device

# diffusers 0.40 renamed the argument; each version warns about, or ignores, the other's name.
_DTYPE = "torch_dtype" if diffusers.__version__.startswith("0.39.") else "dtype"
_LIBRARIES = {"diffusers": diffusers, "transformers": transformers}
_MODEL_CLASSES = (diffusers.ModelMixin, transformers.PreTrainedModel)
# A text encoder is often cut from a language model whose file still holds this part, which nothing here needs.
_SPARE = ("lm_head.",)


def skeletons(checkpoint: Checkpoint) -> dict[str, nn.Module]:
    """Return the denoisers built from their configs without memory for weights: what they contain, before loading."""
    found = {}
    for name, model_class in _model_classes(checkpoint).items():
        if issubclass(model_class, diffusers.ModelMixin):
            _require_known_keys(checkpoint, name, model_class)
        if name in checkpoint.row.denoisers:
            found[name] = _skeleton(checkpoint, name, model_class)
    return found


def load_pipeline(checkpoint: Checkpoint, *, device: Device, dtype: str) -> Any:
    """Return diffusers' pipeline of *checkpoint*, on *device*, silent. The caller holds the turn (`omni.models.turn`).

    Only safetensors are read and nothing is downloaded. Raises ModelError where the weights do not fit the model,
    InfrastructureError where the device cannot hold them.
    """
    pipeline_class = getattr(diffusers, checkpoint.row.pipeline)
    try:
        with quiet_libraries():
            pipeline = pipeline_class.from_pretrained(
                str(checkpoint.path),
                **_models(checkpoint, dtype),
                **{_DTYPE: getattr(torch, dtype)},
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
            )
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


def _model_classes(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the classes of the parts that have weights."""
    found = {}
    for name, (library, class_name) in components(checkpoint.path, checkpoint.row).items():
        part = getattr(_LIBRARIES.get(library), class_name, None)
        if isinstance(part, type) and issubclass(part, _MODEL_CLASSES):
            found[name] = part
        elif name in checkpoint.row.denoisers:
            raise ModelError(
                f"{checkpoint.path / INDEX}: {name} is {class_name!r}, which is no model of {library}"
            )
    return found


def _require_known_keys(checkpoint: Checkpoint, name: str, model_class: Any) -> None:
    """Refuse a config with a key that the class would ignore: it would draw, and something else than was meant."""
    path = checkpoint.path / name / "config.json"
    known = [key for key in inspect.signature(model_class.__init__).parameters if key != "self"]
    for key in read_json(path):
        if not key.startswith("_") and key not in known:
            raise ModelError(
                f"{path}: {model_class.__name__} of diffusers {diffusers.__version__} has no setting {key!r}"
                f"{did_you_mean(key, known)}"
            )


def _skeleton(checkpoint: Checkpoint, name: str, model_class: Any) -> nn.Module:
    path = checkpoint.path / name / "config.json"
    config = read_json(path)
    try:
        with torch.device("meta"):
            skeleton: nn.Module = model_class.from_config(config)
    except Exception as fault:
        raise ModelError(f"{path}: {model_class.__name__} cannot be built from it: {fault!r}") from fault
    return skeleton


def _models(checkpoint: Checkpoint, dtype: str) -> dict[str, Any]:
    """Return the parts with weights, loaded one by one: only so do the libraries tell what did not fit.

    Left to themselves they fill what is missing with random numbers, drop what is too much, and go on.
    """
    models = {}
    for name, model_class in _model_classes(checkpoint).items():
        key = _DTYPE if issubclass(model_class, diffusers.ModelMixin) else "dtype"
        models[name], info = model_class.from_pretrained(
            str(checkpoint.path / name),
            **{key: getattr(torch, dtype)},
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
        folder = checkpoint.path / name
        if missing := sorted(info["missing_keys"]):
            raise ModelError(
                f"{folder}: {len(missing)} weights are missing from its files, {missing[0]} first; "
                "copy or download the checkpoint again"
            )
        if surplus := sorted(key for key in info["unexpected_keys"] if not key.startswith(_SPARE)):
            raise ModelError(
                f"{folder}: {len(surplus)} weights in its files have no place in the {model_class.__name__} that its "
                f"config.json describes, {surplus[0]} first; the two do not belong together"
            )
    return models
