from __future__ import annotations

import json
from pathlib import Path

import pytest

from omni.errors import ModelError
from omni.models.weights import check_weights

FILE = "diffusion_pytorch_model.safetensors"


def test_whole_files_pass(paper_checkpoint: Path) -> None:
    check_weights(paper_checkpoint, ["transformer", "vae"])


def test_parts_without_a_model_have_no_weights(paper_checkpoint: Path) -> None:
    check_weights(paper_checkpoint, ["scheduler"])


@pytest.mark.parametrize("keep", [0, 7, 8, 20, -1])
def test_a_truncated_file_is_named(paper_checkpoint: Path, keep: int) -> None:
    path = paper_checkpoint / "vae" / FILE
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(ModelError, match=rf"vae/{FILE}: .*copy or download the checkpoint again"):
        check_weights(paper_checkpoint, ["transformer", "vae"])


@pytest.mark.parametrize(
    "header", [b"nonsense", b"[1, 2]  ", b'{"a": 1}', b'{"a":{"data_offsets":[0]}}', b"[" * 100_000]
)
def test_a_header_that_is_none(paper_checkpoint: Path, header: bytes) -> None:
    path = paper_checkpoint / "vae" / FILE
    path.write_bytes(len(header).to_bytes(8, "little") + header)

    with pytest.raises(ModelError, match="the safetensors header cannot be read"):
        check_weights(paper_checkpoint, ["vae"])


def test_a_huge_header_is_not_read(paper_checkpoint: Path) -> None:
    path = paper_checkpoint / "vae" / FILE
    path.write_bytes((2**60).to_bytes(8, "little") + b"x")

    with pytest.raises(ModelError, match="not a complete safetensors file"):
        check_weights(paper_checkpoint, ["vae"])


def test_pickled_weights_are_never_read(paper_checkpoint: Path) -> None:
    path = paper_checkpoint / "vae" / FILE
    path.rename(path.with_name("diffusion_pytorch_model.bin"))

    with pytest.raises(ModelError, match=r"found diffusion_pytorch_model\.bin; only safetensors are read"):
        check_weights(paper_checkpoint, ["vae"])


def test_a_missing_shard_is_named(paper_checkpoint: Path) -> None:
    index = paper_checkpoint / "vae" / "diffusion_pytorch_model.safetensors.index.json"
    for shard in ("second.safetensors", "../../elsewhere.safetensors"):
        index.write_text(json.dumps({"weight_map": {"a": FILE, "b": shard}}))
        with pytest.raises(ModelError, match=f"shard '{shard}' is not beside it"):
            check_weights(paper_checkpoint, ["vae"])
