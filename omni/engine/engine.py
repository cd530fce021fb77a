"""The engine: one checkpoint on one device, drawing images one at a time."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch

from omni.attention.bridge_diffusers import Binding, bind, plan
from omni.attention.registry import validate
from omni.attention.report import ResolutionReport
from omni.config.attention import AttentionConfig, from_environment
from omni.engine.loading import load_pipeline, skeletons
from omni.engine.prompts import check_guidance, check_lengths
from omni.engine.request import ImageRequest, ImageResult, Progress
from omni.errors import Cancelled, InfrastructureError, InputError, RequestError
from omni.models.discovery import discover
from omni.models.sizes import SizeRules
from omni.models.turn import TURN
from omni.platforms.devices import choose_device, choose_dtype, detect, release_memory


class Omni:
    """A loaded model. Safe to share between threads: in a process, images and loads of all engines take turns.

    *model* is a diffusers folder or a hub id. *device* is "auto", or a platform's name that is then used or refused;
    *dtype* "auto" is float32 on the CPU and bfloat16 elsewhere. *attention* and *attention_backend* follow
    `omni.config.attention`. *max_image_size* ("7680*4320") bounds the pixels of a request.

    Raises ModelError, AttentionError, InputError or DeviceError before any weight is read where the arguments allow
    it to be known.
    """

    model: str
    device: str
    dtype: str
    sizes: SizeRules
    report: ResolutionReport

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "auto",
        attention: AttentionConfig | str | Mapping[str, Any] | None = None,
        attention_backend: str | None = None,
        max_image_size: str | None = None,
    ) -> None:
        config = from_environment(attention, attention_backend, os.environ)
        validate(config)
        checkpoint = discover(model)
        validate(config, roles=checkpoint.row.role_names)
        self.model = os.fspath(model)
        self._row = checkpoint.row
        self.sizes = SizeRules.of(checkpoint.path, checkpoint.row, max_image_size=max_image_size)
        self._device = choose_device(device, detect())
        self.device = self._device.platform
        self.dtype = choose_dtype(dtype, self._device)
        validate(config, platform=self.device)
        with TURN.taken():
            self.report = plan(skeletons(checkpoint), self._row, config, platform=self.device)
            self._pipeline: Any = load_pipeline(checkpoint, device=self._device, dtype=self.dtype)
            self._binding: Binding = bind(self._pipeline, self._row, self.report)

    def generate(
        self,
        prompt: str | ImageRequest,
        *,
        negative_prompt: str | None = None,
        n: int = 1,
        size: str | None = None,
        num_inference_steps: int | None = None,
        guidance_scale: float | None = None,
        seed: int | None = None,
        on_progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> ImageResult:
        """Return *n* images of *size* ("64x64"; None is the checkpoint's default), or what an ImageRequest asks for.

        Image i is drawn with seed + i and equals the single image of that seed; without a seed one is chosen and
        returned. Raises RequestError or SizeError before anything is drawn, also for a prompt that the model would
        not read to its end; Cancelled between two steps once *cancelled* answers true; InfrastructureError for an
        image with values that are no numbers.
        """
        if isinstance(prompt, ImageRequest):
            others = (negative_prompt, size, num_inference_steps, guidance_scale, seed)
            if n != 1 or any(other is not None for other in others):
                raise RequestError("give either an ImageRequest or its fields as arguments, not both")
            request = prompt
        else:
            width, height = self.sizes.resolve(size)
            request = ImageRequest(
                prompt=prompt,
                negative_prompt=negative_prompt,
                n=n,
                width=width,
                height=height,
                num_inference_steps=num_inference_steps,
                guidance_scale=guidance_scale,
                seed=seed,
            )
        return self._generate(request, on_progress, cancelled or _never)

    def attention_calls(self) -> dict[str, int]:
        """Return how many attention calls each role has made since loading; graphs compiled by torch do not count."""
        return dict(self._binding.calls)

    def close(self) -> None:
        """Free the model once the current request is done; later requests are refused."""
        with TURN.taken():
            self._binding.release()
            self._pipeline = None
        release_memory(self._device)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _generate(
        self, request: ImageRequest, on_progress: Progress | None, cancelled: Callable[[], bool]
    ) -> ImageResult:
        width, height = self._size_of(request)
        check_guidance(request, self._row.prompts)
        first = secrets.randbelow(2**32) if request.seed is None else request.seed
        seeds = tuple(first + index for index in range(request.n))
        started = time.perf_counter()
        with self._my_turn(cancelled):
            check_lengths(request, self._row.prompts, self._pipeline.tokenizer)
            images = []
            for index, seed in enumerate(seeds):
                on_step = _step_callback(index, on_progress, cancelled)
                floats = self._draw(request, seed, width, height, on_step)
                images += self._pipeline.image_processor.numpy_to_pil(floats)
            steps = self._pipeline.num_timesteps
        seconds = time.perf_counter() - started
        return ImageResult(
            images=tuple(images), seeds=seeds, width=width, height=height, seconds=seconds, steps=steps
        )

    def _generate_array(self, request: ImageRequest) -> Any:
        """Return one image as floats in 0..1, (height, width, 3): what is left of a difference before rounding."""
        width, height = self._size_of(request)
        with self._my_turn(_never):
            return self._draw(request, request.seed or 0, width, height, _step_callback(0, None, _never))

    def _size_of(self, request: ImageRequest) -> tuple[int, int]:
        if request.width is None or request.height is None:
            return self.sizes.default
        return self.sizes.check(request.width, request.height)

    @contextmanager
    def _my_turn(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        with TURN.taken(lambda: _stop_if(cancelled)):
            _stop_if(cancelled)
            if self._pipeline is None:
                raise InputError(f"{self.model}: this engine is closed; make a new one")
            yield

    def _draw(
        self,
        request: ImageRequest,
        seed: int,
        width: int,
        height: int,
        on_step: Callable[..., Any],
    ) -> Any:
        """Return one image as floats in 0..1, (height, width, 3).

        Noise is drawn on the CPU, so that a seed means the same picture on every device. Rounding to pixels would
        hide what is not a number, so that is judged here.
        """
        given = {
            "negative_prompt": request.negative_prompt,
            "num_inference_steps": request.num_inference_steps,
            "guidance_scale": request.guidance_scale,
        }
        try:
            floats = self._pipeline(
                # A string of our own each time: pipelines overwrite the lists they are given.
                prompt=request.prompt,
                width=width,
                height=height,
                generator=torch.Generator("cpu").manual_seed(seed),
                output_type="np",
                callback_on_step_end=on_step,
                **{name: value for name, value in given.items() if value is not None},
            ).images[0]
        except torch.OutOfMemoryError as fault:
            release_memory(self._device)
            raise InfrastructureError(
                f"out of memory on {self.device} for an image of {width}x{height}; ask for a smaller size: {fault}"
            ) from None
        if not np.isfinite(floats).all():
            raise InfrastructureError(
                f"{self.model}: the image of seed {seed} has values that are no numbers: the weights are damaged, "
                f"or they or the guidance_scale are too much for {self.dtype}"
            )
        return floats


def _step_callback(
    index: int, on_progress: Progress | None, cancelled: Callable[[], bool]
) -> Callable[[Any, int, Any, dict[str, Any]], dict[str, Any]]:
    """Return diffusers' step callback. It stops a run by raising: the pipeline's own flag would still decode the image."""

    def on_step(pipeline: Any, step: int, _timestep: Any, values: dict[str, Any]) -> dict[str, Any]:
        if on_progress is not None:
            on_progress(index, step + 1, pipeline.num_timesteps)
        _stop_if(cancelled)
        return values

    return on_step


def _stop_if(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled("cancelled: the caller no longer wants this image")


def _never() -> bool:
    return False
