from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omni.errors import InputError, ModelError
from omni.models.discovery import discover

WEIGHTS = "diffusion_pytorch_model.safetensors"
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


def test_a_path_is_as_good_as_its_text(paper_checkpoint: Path) -> None:
    assert discover(paper_checkpoint) == discover(str(paper_checkpoint))


@pytest.mark.parametrize("model", [None, 3, b"model"])
def test_what_is_no_name_at_all(model: Any) -> None:
    with pytest.raises(ModelError, match=r"must be a folder or a hub id, as text or a path, got "):
        discover(model)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.touch()
    with pytest.raises(ModelError, match=r"is a file; give the diffusers folder"):
        discover(str(path))


@pytest.mark.parametrize(
    "model",
    [
        Path("nope"),
        "./nowhere",
        "/nowhere/at/all",
        "nowhere",
        "",
        "a/b/c",
        "../x",
        "-x/y",
        "~nobody/x",
        "a\0b",
        "x" * 5000,
    ],
)
def test_what_is_neither_folder_nor_hub_id_never_reaches_the_network(
    model: str | Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize("model", ["a--b/c", "a..b/c", "a/b.git", "a/" + "b" * 97])
def test_names_that_the_hub_itself_refuses(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"^'a.*: no such folder, and not"):
        discover(model, OFFLINE)


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


@pytest.mark.parametrize("name", ["../outside", "/etc", "a/b", "", "image_encoder", "text_encodr"])
def test_a_part_that_the_pipeline_does_not_have(paper_checkpoint: Path, name: str) -> None:
    (paper_checkpoint.parent / "outside").mkdir()
    edit_index(paper_checkpoint, **{name: ["diffusers", "AutoencoderKL"]})
    with pytest.raises(ModelError, match=rf"model_index\.json: ZImagePipeline has no part '{name}'"):
        discover(paper_checkpoint)


@pytest.mark.parametrize(
    "entry",
    ["AutoencoderKL", None, {}, [], 3, ["transformers"], [None, None], ["diffusers", None], ["a", "b", "c"]],
)
def test_a_part_is_a_library_and_a_class(paper_checkpoint: Path, entry: object) -> None:
    edit_index(paper_checkpoint, vae=entry)
    with pytest.raises(
        ModelError, match=r"model_index\.json: vae must be a pair of a library and a class"
    ) as caught:
        discover(paper_checkpoint)
    assert str(caught.value).endswith(json.dumps(entry))


def test_a_part_that_the_index_forgets(paper_checkpoint: Path) -> None:
    edit_index(paper_checkpoint)
    path = paper_checkpoint / "model_index.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "tokenizer"}))
    with pytest.raises(ModelError, match=r"tokenizer must be a pair"):
        discover(paper_checkpoint)


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("blobs/gone")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_dangling, _folder])
def test_weights_that_cannot_be_read(paper_checkpoint: Path, spoil: Callable[[Path], None]) -> None:
    path = paper_checkpoint / "vae" / WEIGHTS
    spoil(path)
    with pytest.raises(ModelError, match=rf"vae/{WEIGHTS}: cannot be read: (No such file|Is a directory)"):
        discover(paper_checkpoint)


@pytest.mark.parametrize("reader", ["is_file", "is_dir", "open", "read_text"])
def test_a_checkpoint_that_is_not_ours_to_read(
    paper_checkpoint: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Simulated, because the superuser reads everything.
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, reader, refuse)
    with pytest.raises(ModelError, match=rf"^{paper_checkpoint}.*: cannot be read: Permission denied$"):
        discover(paper_checkpoint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, r"nested deeper"),
        ('{"a": 1' + "0" * 5000 + "}", r"digits"),
        ('{"vae": 1, "vae": 2}', r"'vae' is given twice"),
        (b"\xff", r"'utf-8'"),
    ],
)
def test_an_index_that_breaks_parsers(paper_checkpoint: Path, text: str | bytes, message: str) -> None:
    (paper_checkpoint / "model_index.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ModelError, match=rf"model_index\.json: not JSON.*{message}") as caught:
        discover(paper_checkpoint)
    assert len(str(caught.value)) < 500


def test_an_index_that_is_not_json(paper_checkpoint: Path) -> None:
    (paper_checkpoint / "model_index.json").write_text('{\n"a": }')
    with pytest.raises(ModelError, match=r"model_index\.json:2:6: not JSON"):
        discover(str(paper_checkpoint))


def test_a_listed_part_without_its_folder(paper_checkpoint: Path) -> None:
    (paper_checkpoint / "text_encoder").rmdir()
    with pytest.raises(ModelError, match=r"text_encoder: missing, though model_index\.json lists it"):
        discover(str(paper_checkpoint))


def test_a_part_that_is_switched_off_needs_no_folder(paper_checkpoint: Path) -> None:
    edit_index(paper_checkpoint, image_encoder=[None, None])

    assert discover(str(paper_checkpoint)).row.family == "z_image"


def test_model_errors_are_input_errors() -> None:
    assert issubclass(ModelError, InputError)
    assert ModelError.exit_code == 2
