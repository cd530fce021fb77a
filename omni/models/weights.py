"""Whether the weight files of a checkpoint are there and whole, read from their headers alone. Torch-free."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from omni.errors import ModelError
from omni.models.sizes import read_json

_PICKLED = ("*.bin", "*.ckpt", "*.pt", "*.pth")
_MOST_HEADER = 100 * 2**20  # safetensors' own limit
_AGAIN = "copy or download the checkpoint again"


def check_weights(folder: Path, parts: Iterable[str]) -> None:
    """Pass if each part that is a model has complete safetensors files; raises ModelError naming the first that has not.

    A part is a model when its folder has a config.json. The header of a file says how long it must be: a truncated
    download is found without reading it.
    """
    for part in parts:
        if (folder / part / "config.json").is_file():
            _check_part(folder / part)


def _check_part(folder: Path) -> None:
    for index in sorted(folder.glob("*.safetensors.index.json")):
        _check_shards(index)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = [path.name for pattern in _PICKLED for path in sorted(folder.glob(pattern))]
        found = f"found {', '.join(pickled)}; only safetensors are read" if pickled else _AGAIN
        raise ModelError(f"{folder}: no *.safetensors weights; {found}")
    for file in files:
        _check_file(file)


def _check_shards(index: Path) -> None:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise ModelError(f"{index}: weight_map must be an object; {_AGAIN}")
    for shard in sorted({str(name) for name in weight_map.values()}):
        if Path(shard).name != shard or not (index.parent / shard).is_file():
            raise ModelError(f"{index}: shard {shard!r} is not beside it; {_AGAIN}")


def _check_file(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MOST_HEADER):
            raise ModelError(f"{path}: not a complete safetensors file ({size} bytes); {_AGAIN}")
        header = file.read(length)
    try:
        ends = [
            entry["data_offsets"][1] for name, entry in json.loads(header).items() if name != "__metadata__"
        ]
        expected = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ModelError(f"{path}: the safetensors header cannot be read; {_AGAIN}") from None
    if size != expected:
        raise ModelError(f"{path}: {size} bytes, its header says {expected}; {_AGAIN}")
