from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from omni.cli.output import Output
from omni.engine.request import ImageResult
from omni.errors import InfrastructureError, InputError


def result(*seeds):
    images = tuple(Image.new("RGB", (8, 8), (seed, 0, 0)) for seed in seeds)
    return ImageResult(images=images, seeds=seeds, width=8, height=8, seconds=0.1, steps=1)


def names_in(folder):
    return [entry.name for entry in folder.iterdir()]


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "PNG"), ("a.JPG", "JPEG"), ("a.jpeg", "JPEG"), ("a.webp", "WEBP")]
)
def test_a_file_gets_the_format_of_its_name(tmp_path, name, kind):
    [path] = Output.of(tmp_path / name).write(result(3))
    assert path == tmp_path / name
    with Image.open(path) as image:
        assert image.format == kind
    assert names_in(tmp_path) == [name]


def test_several_images_are_numbered(tmp_path):
    paths = list(Output.of(tmp_path / "a.png").write(result(3, 4)))
    assert [path.name for path in paths] == ["a-0.png", "a-1.png"]
    for path, red in zip(paths, (3, 4), strict=True):
        with Image.open(path) as image:
            assert image.getpixel((0, 0)) == (red, 0, 0)


def test_in_a_folder_images_are_named_after_their_seed_and_nothing_earlier_is_lost(tmp_path):
    names = [path.name for _ in range(2) for path in Output.of(tmp_path).write(result(3, 4))]
    assert names == ["omni-3.png", "omni-4.png", "omni-3-2.png", "omni-4-2.png"]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nope/a.png", "there is no folder"),
        ("a.pgn", "did you mean '.png'"),
        ("a", "no folder of that name, and a file needs an extension: .png"),
        (f"{'n' * 300}/a.png", "cannot be used: File name too long"),
    ],
)
def test_a_place_that_cannot_be_is_refused(tmp_path, path, says):
    with pytest.raises(InputError, match=says):
        Output.of(tmp_path / path)


def test_an_unreachable_folder_is_refused(tmp_path, monkeypatch):
    def locked(_path, **_how):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", locked)  # tests may run as root, whom no folder refuses
    with pytest.raises(InputError, match="cannot be used: Permission denied"):
        Output.of(tmp_path / "a.png")


def test_a_link_stays_a_link_and_its_target_gets_the_image(tmp_path):
    (tmp_path / "inner").mkdir()
    link, target = tmp_path / "link.png", tmp_path / "inner" / "target.png"
    link.symlink_to(target)
    assert list(Output.of(link).write(result(3))) == [link]
    assert link.is_symlink()
    with Image.open(target) as image:
        assert image.getpixel((0, 0)) == (3, 0, 0)
    assert names_in(tmp_path / "inner") == ["target.png"]


def test_a_link_to_a_device_leaves_the_device_alone(tmp_path):
    link = tmp_path / "link.png"
    link.symlink_to("/dev/null")
    with pytest.raises(InfrastructureError, match="/dev/null is not a regular file"):
        list(Output.of(link).write(result(3)))
    assert Path("/dev/null").is_char_device()


def test_a_failed_write_leaves_nothing_and_says_so(tmp_path):
    (tmp_path / "a.png").mkdir()
    place = Output(tmp_path, "a", ".png")
    with pytest.raises(InfrastructureError, match=r"a\.png: not written"):
        list(place.write(result(1)))
    assert names_in(tmp_path) == ["a.png"]
