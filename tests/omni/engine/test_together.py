"""Several engines in one process: their loads and images take turns, because loading changes the whole process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from omni import Omni
from omni.errors import InputError

WISH = {"seed": 1, "num_inference_steps": 2}


def drawn(engine: Omni) -> bytes:
    pixels: bytes = engine.generate("a cat", **WISH).images[0].tobytes()
    return pixels


def test_nothing_is_loaded_or_built_while_an_image_is_drawn(
    z_image_engine: Omni, tiny_z_image: Path, tmp_path: Path
) -> None:
    from omni.models.tiny import build

    alone = drawn(z_image_engine)
    done = [threading.Event(), threading.Event()]

    def load() -> None:
        Omni(tiny_z_image, device="cpu", dtype="bfloat16").close()
        done[0].set()

    def make() -> None:
        build("z_image", tmp_path / "made")
        done[1].set()

    threads = [threading.Thread(target=load), threading.Thread(target=make)]

    def on_progress(_image: int, step: int, _steps: int) -> None:
        if step == 1:
            for thread in threads:
                thread.start()
            assert not any(event.wait(0.7) for event in done)  # either takes a fraction of it

    result = z_image_engine.generate("a cat", **WISH, on_progress=on_progress)
    for thread in threads:
        thread.join(60)
    assert all(event.is_set() for event in done)
    assert result.images[0].tobytes() == drawn(z_image_engine) == alone


def test_engines_built_at_once_are_whole(z_image_engine: Omni, tiny_z_image: Path) -> None:
    alone = drawn(z_image_engine)
    images: list[bytes] = []
    start = threading.Barrier(4)

    def build() -> None:
        start.wait(60)
        with Omni(tiny_z_image, device="cpu") as engine:
            images.append(drawn(engine))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert images == [alone] * 4


@pytest.mark.parametrize("act", ["generate", "close", "build"])
def test_a_callback_that_asks_for_more_is_told_so(z_image_engine: Omni, tiny_z_image: Path, act: str) -> None:
    acts = {
        "generate": lambda: drawn(z_image_engine),
        "close": z_image_engine.close,
        "build": lambda: Omni(tiny_z_image, device="cpu"),
    }
    alone = drawn(z_image_engine)

    def on_progress(*_: int) -> None:
        with pytest.raises(InputError, match="return from the callback first"):
            acts[act]()

    result = z_image_engine.generate("a cat", **WISH, on_progress=on_progress)
    assert result.images[0].tobytes() == drawn(z_image_engine) == alone
