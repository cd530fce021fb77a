from __future__ import annotations

import json
from pathlib import Path

import pytest

from omni.errors import InputError, ModelError
from omni.models.discovery import discover

OFFLINE = {"HF_HUB_OFFLINE": "1"}


def edit_index(folder: Path, **changes: object) -> None:
    path = folder / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_folder_is_found_with_its_row(paper_checkpoint: Path) -> None:
    found = discover(str(paper_checkpoint), OFFLINE)

    assert found.path == paper_checkpoint
    assert found.row.family == "z_image"


def test_a_folder_without_an_index_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no model_index\.json.*it is empty"):
        discover(str(tmp_path))
    (tmp_path / "config.json").touch()
    with pytest.raises(
        ModelError, match=r"not a diffusers pipeline \(it holds config\.json\).*save_pretrained"
    ):
        discover(str(tmp_path))


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(ModelError, match=r"is a file; give the diffusers folder"):
        discover(str(path))


@pytest.mark.parametrize(
    "model",
    ["./nowhere", "/nowhere/at/all", "nowhere", "", "a/b/c", "../x", "-x/y", "~nobody/x", "a\0b", "x" * 5000],
)
def test_what_is_neither_folder_nor_hub_id_never_reaches_the_network(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setattr("omni.models.discovery._download", lambda *_: pytest.fail("asked the hub"))
    with pytest.raises(ModelError, match=r"no such folder, and not a hub id"):
        discover(model)


def test_a_hub_id_offline_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ModelError, match=r"'nobody/nothing-here'.*not in the local hub cache; HF_HUB_OFFLINE"
    ):
        discover("nobody/nothing-here", OFFLINE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ZImagePipelin",
            r"'ZImagePipelin' is not one this runtime serves \(did you mean 'ZImagePipeline'\?\)",
        ),
        ("UnheardOfPipeline9", r"is not one this runtime serves"),
        (["pipeline", "MyPipeline"], r"custom code is not run"),
        (None, r"must name a pipeline"),
    ],
)
def test_a_pipeline_we_do_not_serve(paper_checkpoint: Path, name: object, message: str) -> None:
    edit_index(paper_checkpoint, _class_name=name)
    with pytest.raises(ModelError, match=message):
        discover(str(paper_checkpoint))


def test_code_in_a_checkpoint_is_refused(paper_checkpoint: Path) -> None:
    edit_index(paper_checkpoint, transformer=["my_transformer", "Mine"])
    with pytest.raises(
        ModelError, match=r"'transformer' comes from 'my_transformer'; .* code from a checkpoint is not run"
    ):
        discover(str(paper_checkpoint))


def test_an_index_that_is_not_json(paper_checkpoint: Path) -> None:
    (paper_checkpoint / "model_index.json").write_text('{\n"a": }')
    with pytest.raises(ModelError, match=r"model_index\.json:2:6: not JSON"):
        discover(str(paper_checkpoint))


def test_a_listed_part_without_its_folder(paper_checkpoint: Path) -> None:
    edit_index(paper_checkpoint, text_encoder=["transformers", "Qwen3Model"])
    with pytest.raises(ModelError, match=r"text_encoder: missing, though model_index\.json lists it"):
        discover(str(paper_checkpoint))


def test_a_part_that_is_switched_off_needs_no_folder(paper_checkpoint: Path) -> None:
    edit_index(paper_checkpoint, image_encoder=[None, None])

    assert discover(str(paper_checkpoint)).row.family == "z_image"


def test_model_errors_are_input_errors() -> None:
    assert issubclass(ModelError, InputError)
    assert ModelError.exit_code == 2
