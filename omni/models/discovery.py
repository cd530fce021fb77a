"""From a model argument to a checkpoint on disk that is worth loading: a folder, else a hub id. Torch-free."""

from __future__ import annotations

import json
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
_SWITCHED_OFF = [None, None]  # how a pipeline writes a part that it can do without
# Weights come as safetensors only: pickled files are neither downloaded nor read.
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
_TRUE = {"1", "on", "yes", "true"}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A diffusers folder that is complete on disk, and the catalog's row for its pipeline."""

    path: Path
    row: CatalogRow


def discover(model: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Checkpoint:
    """Return the checkpoint *model* names: a folder, else an id "owner/name" on the hub.

    The network is used only for an id that is no folder, and not at all under HF_HUB_OFFLINE. Raises ModelError
    for what cannot be served, InfrastructureError where the hub cannot be reached.
    """
    name = os.fspath(model) if isinstance(model, os.PathLike) else model
    if not isinstance(name, str):
        raise ModelError(f"model must be a folder or a hub id, as text or a path, got {name!r}")
    folder = Path(os.path.expanduser(name))  # noqa: PTH111 - leaves an unknown ~user as it is, pathlib raises
    if is_hub_id(name):
        folder = _download(name, os.environ if environ is None else environ)
    elif not os.path.isdir(folder):  # noqa: PTH112 - false where pathlib raises
        raise ModelError(f"{name}: is a file; give the diffusers folder that holds {INDEX}")
    try:
        row = _row_of(folder)
        check_weights(folder, components(folder, row))
    except OSError as fault:  # a dangling link, a folder where a file should be, one that is not ours to read
        raise ModelError(f"{fault.filename or folder}: cannot be read: {fault.strerror or fault}") from None
    return Checkpoint(folder, row)


def components(folder: Path, row: CatalogRow) -> dict[str, tuple[str, str]]:
    """Return the parts of the pipeline in *folder*, name -> (library, class), each with a folder of its own.

    Raises ModelError for an index that lists anything but the parts the pipeline has, or code of the checkpoint.
    """
    path = folder / INDEX
    listed = {name: entry for name, entry in read_json(path).items() if not name.startswith("_")}
    for name, entry in listed.items():
        # A name is also a folder's: anything else could lead out of the checkpoint.
        if name not in row.parts and entry != _SWITCHED_OFF:
            raise ModelError(f"{path}: {row.pipeline} has no part {name!r}{did_you_mean(name, row.parts)}")
    return {name: _component(folder, name, listed.get(name)) for name in row.parts}


def _component(folder: Path, name: str, entry: object) -> tuple[str, str]:
    path = folder / INDEX
    match entry:
        case [str(library), str(class_name)]:
            pass
        case _:
            raise ModelError(
                f'{path}: {name} must be a pair of a library and a class, as in ["diffusers", "AutoencoderKL"], '
                f"found {json.dumps(entry)[:80]}"
            )
    if library not in _LIBRARIES:
        raise ModelError(
            f"{path}: component {name!r} comes from {library!r}; only {' and '.join(_LIBRARIES)} classes are loaded, "
            "code from a checkpoint is not run"
        )
    if not (folder / name).is_dir():
        raise ModelError(
            f"{folder / name}: missing, though {INDEX} lists it; copy or download the checkpoint again"
        )
    return library, class_name


def is_hub_id(model: str) -> bool:
    """Tell whether *model* is an id on the hub: no folder or file here; raises ModelError for what is neither."""
    # os.path answers false, where pathlib raises, for names that no file can have.
    if model and os.path.exists(os.path.expanduser(model)):  # noqa: PTH110, PTH111
        return False
    _require_hub_id(model)
    return True


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
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    offline = environ.get("HF_HUB_OFFLINE", "").strip().lower() in _TRUE
    try:
        # The index alone first: a repository that is no pipeline costs one small file.
        index = Path(hf_hub_download(model, INDEX, local_files_only=offline))
        _row_of(index.parent)
        return Path(snapshot_download(model, allow_patterns=list(_HUB_FILES), local_files_only=offline))
    except HFValidationError as fault:  # the hub's rules for names are stricter than ours
        raise ModelError(
            f"{model!r}: no such folder, and not a hub id: {' '.join(str(fault).split())}"
        ) from None
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
