"""From a model argument to a checkpoint on disk that is worth loading: a folder, else a hub id. Torch-free."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omni.errors import InfrastructureError, ModelError, did_you_mean
from omni.models.catalog import CATALOG, CatalogRow
from omni.models.sizes import read_json
from omni.models.weights import check_weights

INDEX = "model_index.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_LIBRARIES = ("diffusers", "transformers")
# Weights come as safetensors only: pickled files are neither downloaded nor read.
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
_TRUE = {"1", "on", "yes", "true"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A diffusers folder that is complete on disk, and the catalog's row for its pipeline."""

    path: Path
    row: CatalogRow


def discover(model: str, environ: Mapping[str, str] | None = None) -> Checkpoint:
    """Return the checkpoint *model* names: a folder, else an id "owner/name" on the hub.

    The network is used only for an id that is no folder, and not at all under HF_HUB_OFFLINE. Raises ModelError
    for what cannot be served, InfrastructureError where the hub cannot be reached.
    """
    folder = Path(os.path.expanduser(model))  # noqa: PTH111 - leaves an unknown ~user as it is, pathlib raises
    if not model or not os.path.exists(folder):  # noqa: PTH110 - false for names no file can have, pathlib raises
        _require_hub_id(model)
        folder = _download(model, os.environ if environ is None else environ)
    elif not folder.is_dir():
        raise ModelError(f"{model}: is a file; give the diffusers folder that holds {INDEX}")
    row = _row_of(folder)
    check_weights(folder, _model_parts(folder))
    return Checkpoint(folder, row)


def _require_hub_id(model: str) -> None:
    if _HUB_ID.fullmatch(model) is None:
        raise ModelError(
            f"{model!r}: no such folder, and not a hub id of the form owner/name; "
            "`omni tiny z_image DIR` writes a small checkpoint to try"
        )


def _download(model: str, environ: Mapping[str, str]) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    offline = environ.get("HF_HUB_OFFLINE", "").strip().lower() in _TRUE
    try:
        # The index alone first: a repository that is no pipeline costs one small file.
        index = Path(hf_hub_download(model, INDEX, local_files_only=offline))
        _row_of(index.parent)
        return Path(snapshot_download(model, allow_patterns=list(_HUB_FILES), local_files_only=offline))
    except LocalEntryNotFoundError as fault:
        if offline:
            raise ModelError(
                f"{model!r}: no such folder, and not in the local hub cache; HF_HUB_OFFLINE forbids the network, "
                "give a folder or download the model first"
            ) from None
        raise InfrastructureError(
            f"{model!r}: no such folder, and the hub cannot be reached: {fault}"
        ) from None
    except RepositoryNotFoundError:  # also raised for gated and private repositories
        raise ModelError(
            f"{model!r}: no such folder, and the hub has no such repository for you (private or gated ones need HF_TOKEN)"
        ) from None
    except EntryNotFoundError:
        raise ModelError(
            f"{model!r}: the hub repository has no {INDEX}, so it is not a diffusers pipeline"
        ) from None
    except (HfHubHTTPError, OSError) as fault:
        raise InfrastructureError(f"{model!r}: the hub cannot be reached: {fault}") from None


def _row_of(folder: Path) -> CatalogRow:
    path = folder / INDEX
    if not path.is_file():
        found = _contents(folder)
        raise ModelError(
            f"{folder}: no {INDEX}, so this is not a diffusers pipeline ({found}); "
            "give the folder that `save_pretrained` of a pipeline wrote"
        )
    name = read_json(path).get("_class_name")
    if not isinstance(name, str):
        # A pair here means pipeline code inside the checkpoint.
        raise ModelError(
            f"{path}: _class_name must name a pipeline of diffusers, found {name!r}; custom code is not run"
        )
    if name not in CATALOG:
        raise ModelError(
            f"{path}: pipeline {name!r} is not one this runtime serves{did_you_mean(name, CATALOG)}"
        )
    return CATALOG[name]


def _contents(folder: Path) -> str:
    try:
        seen = sorted(entry.name for entry in folder.iterdir())
    except OSError as fault:
        return f"it cannot be read: {fault.strerror}"
    return f"it holds {', '.join(seen[:8])}{', …' if len(seen) > 8 else ''}" if seen else "it is empty"


def _model_parts(folder: Path) -> tuple[str, ...]:
    """Return the components of the pipeline that have a folder, after refusing any that bring their own code."""
    path = folder / INDEX
    parts = []
    for name, entry in read_json(path).items():
        if name.startswith("_") or not isinstance(entry, list):
            continue
        library = entry[0] if entry else None
        if library is None:
            continue
        if library not in _LIBRARIES:
            raise ModelError(
                f"{path}: component {name!r} comes from {library!r}; only {' and '.join(_LIBRARIES)} classes are loaded, "
                "code from a checkpoint is not run"
            )
        if not (folder / name).is_dir():
            raise ModelError(
                f"{folder / name}: missing, though {INDEX} lists it; copy or download the checkpoint again"
            )
        parts.append(name)
    return tuple(parts)
