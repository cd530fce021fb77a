from __future__ import annotations

import hashlib
import json
import resource
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


def test_the_working_directory_is_filled_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build("z_image", Path())

    # A folder that was replaced would leave this process in one that is gone.
    assert Path("model_index.json").is_file()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed(exists: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if exists:
        target.mkdir()
    link.symlink_to(target)

    build("z_image", link)
    assert link.is_symlink()
    assert discover(target).row.family == "z_image"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk(exists: bool, tmp_path: Path) -> None:
    target = tmp_path / "model"
    if exists:
        target.mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(InfrastructureError, match=r"model: cannot be written: "):
            build("z_image", target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path for path in tmp_path.rglob("*") if path != target] == []


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
