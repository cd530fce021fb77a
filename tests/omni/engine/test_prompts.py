"""What a pipeline would silently cut or ignore is refused."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from omni import ImageRequest, Omni
from omni.errors import RequestError
from omni.models.catalog import CATALOG

# One token a byte, beside those of the chat template: three special words, and the rest of it byte by byte.
ROOM = 512 - 3 - len("user\n\nassistant\n")


@pytest.fixture
def never_draws(z_image_engine: Omni, monkeypatch: pytest.MonkeyPatch) -> Omni:
    monkeypatch.setattr(z_image_engine, "_draw", lambda *_, **__: pytest.fail("drew"))
    return z_image_engine


@pytest.mark.parametrize("param", ["prompt", "negative_prompt"])
def test_a_prompt_is_read_to_its_end(z_image_engine: Omni, param: str) -> None:
    wish = {"prompt": "a cat", "seed": 1, "num_inference_steps": 1, "width": 32, "height": 32}
    images = [
        z_image_engine.generate(ImageRequest(**wish | {param: "x" * (ROOM - 1) + end})).images[0].tobytes()
        for end in "ab"
    ]
    assert images[0] != images[1]


@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize("param", ["prompt", "negative_prompt"])
@pytest.mark.parametrize("text", ["x" * (ROOM + 1), "é" * (ROOM // 2 + 1), "x" * 100_000])
def test_a_prompt_that_would_be_cut_is_refused(never_draws: Omni, param: str, text: str) -> None:
    with pytest.raises(
        RequestError, match=rf"^{param} is too long: \d+ tokens .* reads 512, about {ROOM}"
    ) as caught:
        never_draws.generate(ImageRequest(**{"prompt": "a cat", param: text}))

    assert caught.value.param == param
    assert str(512 - ROOM + len(text.encode())) in str(caught.value)


def test_the_rule_is_the_pipelines_own(z_image_engine: Omni, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = z_image_engine._pipeline
    read: list[tuple[str, dict[str, Any]]] = []
    original = pipeline.tokenizer.apply_chat_template

    def template(messages: list[dict[str, str]], **wanted: Any) -> Any:
        read.append((messages[0]["content"], wanted))
        return original(messages, **wanted)

    monkeypatch.setattr(pipeline.tokenizer, "apply_chat_template", template)
    request = ImageRequest(prompt="a cat", negative_prompt="a dog", n=2, num_inference_steps=1)
    z_image_engine.generate(request)

    # Each of the images starts from the words as they were written, not from what the pipeline made of them before.
    assert [text for text, _ in read] == ["a cat", "a dog"] * 3
    assert all(wanted == read[0][1] for _, wanted in read)
    default = inspect.signature(type(pipeline).__call__).parameters["max_sequence_length"].default
    assert default == z_image_engine._row.prompts.tokens


def test_a_negative_prompt_without_guidance_is_refused(never_draws: Omni) -> None:
    with pytest.raises(RequestError, match=r"no effect with guidance_scale 0; .* above 0") as caught:
        never_draws.generate("a cat", negative_prompt="a dog", guidance_scale=0)

    assert caught.value.param == "negative_prompt"


def test_an_empty_negative_prompt_asks_for_nothing(z_image_engine: Omni) -> None:
    wish = {"seed": 1, "num_inference_steps": 1, "guidance_scale": 0.0}
    images = [
        z_image_engine.generate("a cat", negative_prompt=empty, **wish).images[0].tobytes()
        for empty in ("", None)
    ]
    assert images[0] == images[1]


def test_the_least_guidance_reads_the_negative_prompt(z_image_engine: Omni) -> None:
    wish = {"seed": 1, "num_inference_steps": 2, "guidance_scale": 0.5}
    images = [
        z_image_engine.generate("a cat", negative_prompt=text, **wish).images[0].tobytes()
        for text in ("a dog", "a tree")
    ]
    assert images[0] != images[1]


def test_the_shortest_legal_table_holds_the_longest_prompt(tiny_z_image: Path, tmp_path: Path) -> None:
    checkpoint = Path(shutil.copytree(tiny_z_image, tmp_path / "model"))
    path = checkpoint / "transformer/config.json"
    least = CATALOG["ZImagePipeline"].positions.least_sequence
    path.write_text(json.dumps(json.loads(path.read_text()) | {"axes_lens": [least, 32, 32]}))
    with Omni(checkpoint, device="cpu") as engine:
        engine.generate("x" * ROOM, num_inference_steps=1)
        engine._pipeline.transformer.rope_embedder.freqs_cis[0] = (
            engine._pipeline.transformer.rope_embedder.freqs_cis[0][: least - 1]
        )
        with pytest.raises(IndexError):
            engine.generate("x" * ROOM, num_inference_steps=1)
