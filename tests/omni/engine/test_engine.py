from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omni import ImageRequest, Omni
from omni.config.attention import ENVIRONMENT
from omni.errors import (
    AttentionError,
    Cancelled,
    DeviceError,
    InputError,
    ModelError,
    RequestError,
    SizeError,
)

STEPS = 2


def pixels(result: Any, index: int = 0) -> bytes:
    image: bytes = result.images[index].tobytes()
    return image


def fail_to_load(*_: Any, **__: Any) -> None:
    pytest.fail("weights were loaded")


def test_the_default_size_is_the_checkpoints(z_image_engine: Omni) -> None:
    result = z_image_engine.generate("a cat", num_inference_steps=STEPS)

    assert (result.width, result.height) == result.images[0].size == (64, 64)
    assert result.steps == STEPS
    assert result.seconds > 0
    assert z_image_engine.device == "cpu"
    assert z_image_engine.dtype == "float32"


def test_image_i_has_seed_plus_i_and_equals_the_single_image(z_image_engine: Omni) -> None:
    many = z_image_engine.generate("a cat", n=3, seed=5, num_inference_steps=STEPS, size="32x48")

    assert many.seeds == (5, 6, 7)
    assert {image.size for image in many.images} == {(32, 48)}
    assert len({pixels(many, index) for index in range(3)}) == 3
    for index, seed in enumerate(many.seeds):
        single = z_image_engine.generate("a cat", seed=seed, num_inference_steps=STEPS, size="32x48")
        assert pixels(single) == pixels(many, index)


def test_a_chosen_seed_draws_the_same_image_again(z_image_engine: Omni) -> None:
    first = z_image_engine.generate("a cat", num_inference_steps=STEPS)
    again = z_image_engine.generate("a cat", seed=first.seeds[0], num_inference_steps=STEPS)

    assert pixels(first) == pixels(again)
    assert first.seeds != z_image_engine.generate("a cat", num_inference_steps=STEPS).seeds


def test_every_wish_reaches_the_pipeline(z_image_engine: Omni) -> None:
    base = {"seed": 1, "num_inference_steps": STEPS}
    changed = [
        {}, {"negative_prompt": "a dog"}, {"guidance_scale": 1.0}, {"num_inference_steps": 3}, {"seed": 2},
        {"size": "64x32"},
    ]  # fmt: skip
    images = {pixels(z_image_engine.generate("a cat", **base | change)) for change in changed}

    assert len(images | {pixels(z_image_engine.generate("a dog", **base))}) == len(changed) + 1


def test_progress_counts_images_and_steps(z_image_engine: Omni) -> None:
    seen: list[tuple[int, int, int]] = []
    z_image_engine.generate(
        "a cat", n=2, num_inference_steps=3, on_progress=lambda *where: seen.append(where)
    )

    assert seen == [(image, step, 3) for image in range(2) for step in (1, 2, 3)]


@pytest.mark.usefixtures("silence")
def test_nothing_is_printed(
    z_image_engine: Omni, tiny_z_image: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Omni(str(tiny_z_image), device="cpu").close()
    z_image_engine.generate("a cat", num_inference_steps=STEPS)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("stop_after", [0, 1, 3, 4])
def test_cancelling_stops_between_steps_and_leaves_the_engine_whole(
    z_image_engine: Omni, stop_after: int
) -> None:
    wanted = {"n": 2, "seed": 3, "num_inference_steps": 3}
    fresh = z_image_engine.generate("a cat", **wanted)
    steps: list[int] = []
    with pytest.raises(Cancelled):
        z_image_engine.generate(
            "a cat",
            **wanted,
            on_progress=lambda *_: steps.append(1),
            cancelled=lambda: len(steps) >= stop_after,
        )
    again = z_image_engine.generate("a cat", **wanted)

    assert len(steps) == stop_after
    assert [pixels(again, i) for i in range(2)] == [pixels(fresh, i) for i in range(2)]


def test_a_cancelled_run_decodes_nothing(z_image_engine: Omni, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z_image_engine._pipeline.vae, "decode", lambda *_, **__: pytest.fail("decoded"))
    steps: list[int] = []
    with pytest.raises(Cancelled):
        z_image_engine.generate(
            "a cat",
            num_inference_steps=STEPS,
            on_progress=lambda *_: steps.append(1),
            cancelled=lambda: len(steps) == STEPS,
        )


def test_threads_take_turns(z_image_engine: Omni) -> None:
    alone = {
        seed: pixels(z_image_engine.generate("a cat", seed=seed, num_inference_steps=STEPS))
        for seed in range(4)
    }
    together: dict[int, bytes] = {}

    def draw(seed: int) -> None:
        together[seed] = pixels(z_image_engine.generate("a cat", seed=seed, num_inference_steps=STEPS))

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == alone


def test_who_waits_for_a_turn_can_give_up(z_image_engine: Omni) -> None:
    running, finish, gave_up = threading.Event(), threading.Event(), threading.Event()

    def hold(*_: int) -> None:
        running.set()
        assert finish.wait(60)

    def wait() -> None:
        with pytest.raises(Cancelled):
            z_image_engine.generate("a cat", num_inference_steps=1, cancelled=running.is_set)
        gave_up.set()

    holder = threading.Thread(
        target=z_image_engine.generate,
        args=("a cat",),
        kwargs={"num_inference_steps": 1, "on_progress": hold},
    )
    holder.start()
    assert running.wait(60)
    waiter = threading.Thread(target=wait)
    waiter.start()
    assert gave_up.wait(60)
    assert holder.is_alive()
    finish.set()
    for thread in (holder, waiter):
        thread.join(60)


@pytest.mark.parametrize("size", ["axb", "33x32", "100000x10000", "0x32", "-32x32", "32x32x32", "1024x1024"])
def test_a_wrong_size_is_refused_before_anything_runs(
    z_image_engine: Omni, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(z_image_engine, "_draw", fail_to_load)
    with pytest.raises(SizeError):
        z_image_engine.generate("a cat", size=size)
    if "1024" in size:
        with pytest.raises(SizeError, match="position table"):
            z_image_engine.generate(ImageRequest(prompt="a cat", width=1024, height=1024))


@pytest.mark.parametrize(
    "wish", [{"n": 0}, {"num_inference_steps": 0}, {"seed": 2**63}, {"guidance_scale": -1.0}]
)
def test_a_wrong_field_is_refused(z_image_engine: Omni, wish: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=next(iter(wish))):
        z_image_engine.generate("a cat", **wish)


def test_a_request_and_its_fields_together_are_refused(z_image_engine: Omni) -> None:
    with pytest.raises(RequestError, match="not both"):
        z_image_engine.generate(ImageRequest(prompt="a cat"), seed=1)


def test_the_largest_legal_image_is_drawn(z_image_engine: Omni) -> None:
    rules = z_image_engine.sizes
    result = z_image_engine.generate("a cat", size=f"{rules.max_width}x16", num_inference_steps=1)

    assert result.images[0].size == (512, 16)


def test_the_operators_limit_bounds_requests(tiny_z_image: Path) -> None:
    with Omni(str(tiny_z_image), device="cpu", max_image_size="48*48") as engine:
        assert engine.sizes.default == (48, 48)
        with pytest.raises(SizeError, match="limit of 2304"):
            engine.generate("a cat", size="64x64")


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        ({"device": "npu"}, DeviceError, r"'npu' was asked for and is not present"),
        ({"device": "npu", "attention_backend": "REFERENCE"}, DeviceError, r"'npu' was asked for"),
        ({"device": "cpuu"}, InputError, r"did you mean 'cpu'"),
        ({"dtype": "int3"}, InputError, r"dtype 'int3' is not known"),
        ({"attention_backend": "REFRENCE"}, AttentionError, r"did you mean 'REFERENCE'"),
        ({"attention": {"per_role": {"ltx2": {"audio_to_video": "REFERENCE"}}}}, AttentionError, r"ltx2\.audio_to_video"),
        ({"attention": "REFERENCE", "attention_backend": "TORCH_SDPA"}, AttentionError, r"both set the default"),
        ({"attention": '{"per_role": {"self": {}}}'}, AttentionError, r"per_role\.self: is empty"),
        ({"max_image_size": "huge"}, InputError, r"expected WIDTH\*HEIGHT"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_weights_load(
    tiny_z_image: Path,
    monkeypatch: pytest.MonkeyPatch,
    wishes: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr("omni.engine.engine.load_pipeline", fail_to_load)
    with pytest.raises(error, match=message):
        Omni(str(tiny_z_image), **wishes)


def test_the_environment_sets_the_default(tiny_z_image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "reference")
    with Omni(
        str(tiny_z_image), device="cpu", attention={"per_role": {"z_image.self": "TORCH_SDPA"}}
    ) as engine:
        engine.generate("a cat", num_inference_steps=1)
        chosen = {item.role: item.selection.because for item in engine.report.bound}

    assert chosen == {
        "z_image.self": "per-role exact (per_role.z_image.self)",
        "z_image.noise_refiner": f"default ({ENVIRONMENT})",
        "z_image.context_refiner": f"default ({ENVIRONMENT})",
    }


def test_engines_side_by_side_do_not_meet(z_image_engine: Omni, tiny_z_image: Path) -> None:
    before = z_image_engine.attention_calls()
    with Omni(str(tiny_z_image), device="cpu", attention_backend="reference") as other:
        result = other.generate("a cat", seed=1, num_inference_steps=STEPS)
        assert sum(other.attention_calls().values()) == 4 * STEPS
    assert z_image_engine.attention_calls() == before

    near = np.asarray(
        z_image_engine.generate("a cat", seed=1, num_inference_steps=STEPS).images[0], dtype=int
    )
    assert np.abs(near - np.asarray(result.images[0], dtype=int)).max() <= 1


def test_a_closed_engine_says_so(tiny_z_image: Path) -> None:
    engine = Omni(str(tiny_z_image), device="cpu")
    engine.close()
    engine.close()
    with pytest.raises(InputError, match="this engine is closed"):
        engine.generate("a cat")


def test_a_path_is_as_good_as_its_text(tiny_z_image: Path) -> None:
    with Omni(tiny_z_image, device="cpu") as engine:
        assert engine.model == str(tiny_z_image)


def test_a_folder_never_needs_the_network(tiny_z_image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("opened a connection"))
    with Omni(str(tiny_z_image), device="cpu") as engine:
        engine.generate("a cat", num_inference_steps=1)


def test_the_model_must_be_a_pipeline(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no model_index\.json"):
        Omni(str(tmp_path))
