"""POST /v1/images/generations: checked, queued, generated, encoded."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import time
from typing import TYPE_CHECKING, Any

from fastapi import Request

from omni.engine.request import ImageRequest, ImageResult
from omni.serving.bodies import read
from omni.serving.errors import model_not_found
from omni.serving.schemas import ImageBody
from omni.serving.slot import EngineSlot

if TYPE_CHECKING:
    from PIL import Image

_log = logging.getLogger(__name__)


async def create(request: Request) -> dict[str, Any]:
    """Generate images and return them as base64; every check happens before anything is queued.

    Returns OpenAI's image response, plus each image's seed, the size and how long the engine took in seconds.
    Raises ApiError (400, 404 model, 408, 413, 503) and the engine's InputError (400).
    """
    slot: EngineSlot = request.app.state.slot
    body = await read(request, ImageBody, request.app.state.arrivals)
    wanted = _image_request(body, slot)
    result = await slot.generate(wanted, lambda: _gone(request))
    # Sizes and times only: a prompt is nobody's business but the client's.
    _log.info(
        "%d x %dx%d, %d steps, %.2f s", wanted.n, result.width, result.height, result.steps, result.seconds
    )
    return await asyncio.to_thread(_response, result, body.output_format)


def encode(image: Image.Image, output_format: str) -> bytes:
    """Return *image* as a png, jpeg or webp file."""
    buffer = io.BytesIO()
    image.save(buffer, format=output_format)
    return buffer.getvalue()


def _image_request(body: ImageBody, slot: EngineSlot) -> ImageRequest:
    if body.model not in {None, slot.name}:
        raise model_not_found(body.model, slot.name)
    width, height = slot.engine.sizes.resolve(None if body.size == "auto" else body.size)
    return ImageRequest(
        prompt=body.prompt,
        negative_prompt=body.negative_prompt,
        n=body.n,
        width=width,
        height=height,
        num_inference_steps=body.num_inference_steps,
        guidance_scale=body.guidance_scale,
        seed=body.seed,
    )


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(result: ImageResult, output_format: str) -> dict[str, Any]:
    return {
        "created": int(time.time()),
        "data": [
            {"b64_json": base64.b64encode(encode(image, output_format)).decode(), "seed": seed}
            for image, seed in zip(result.images, result.seeds, strict=True)
        ],
        "output_format": output_format,
        "size": f"{result.width}x{result.height}",
        "metrics": {"seconds": round(result.seconds, 4), "num_inference_steps": result.steps},
    }
