from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from omni.errors import InfrastructureError, InputError
from omni.models.discovery import discover
from omni.models.tiny import FAMILIES, build


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_written_whole_small_and_the_same_each_time(family: str, tmp_path: Path) -> None:
    import torch

    state = torch.random.get_rng_state()
    first = build(family, tmp_path / "deep" / "first")
    second = build(family, tmp_path / "second")
    other = build(family, tmp_path / "other", seed=1)

    assert digests(first) == digests(second)
    assert digests(first) != digests(other)
    assert torch.equal(state, torch.random.get_rng_state())
    assert sum(path.stat().st_size for path in first.rglob("*")) < 5 * 2**20
    assert discover(str(first)).row.family == family
    assert json.loads((first / "omni.json").read_text()) == {"schema": 1, "default_size": "64x64"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "other", "second"]


def test_writing_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build("z_image", tmp_path / "model")

    assert capfd.readouterr() == ("", "")


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(InputError, match=r"is not empty \(it holds thesis\.txt\); give a new folder"):
        build("z_image", tmp_path)
    assert digests(tmp_path).keys() == {"thesis.txt"}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()

    assert (build("z_image", target) / "model_index.json").is_file()


@pytest.mark.parametrize(
    ("family", "message"), [("zimage", "did you mean 'z_image'"), ("x", "known: z_image")]
)
def test_an_unknown_family(family: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        build(family, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_target_that_is_a_file_or_lies_under_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match="is a file; give a new folder"):
        build("z_image", file)
    with pytest.raises(InfrastructureError, match="cannot be written"):
        build("z_image", file / "below")


def test_a_name_no_folder_can_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be used: File name too long"):
        build("z_image", tmp_path / ("x" * 300))


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path, _seed: int) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("omni.models.tiny.z_image.write", write)
    with pytest.raises(KeyboardInterrupt):
        build("z_image", tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
