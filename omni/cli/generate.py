"""`omni generate`: images from a prompt, without a server."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from omni.cli.flags import EngineFlags
from omni.cli.output import Output
from omni.cli.progress import shown
from omni.engine.request import ImageRequest
from omni.models.discovery import discover
from omni.models.sizes import SizeRules


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImageFlags:
    """What to draw."""

    prompt: Annotated[str, Parameter(help="what the image shows")]
    negative_prompt: Annotated[str | None, Parameter(help="what it should not show")] = None
    n: Annotated[int, Parameter(help="how many images; image i is drawn with seed + i")] = 1
    size: Annotated[str | None, Parameter(help="WIDTHxHEIGHT in pixels; default: the checkpoint's")] = None
    seed: Annotated[int | None, Parameter(help="draws the same image again; default: a random one")] = None
    num_inference_steps: Annotated[int | None, Parameter(help="denoising steps; default: the pipeline's")] = (
        None
    )
    guidance_scale: Annotated[
        float | None, Parameter(help="how strictly the prompt is followed; default: the pipeline's")
    ] = None

    def request(self, sizes: SizeRules) -> ImageRequest:
        """Return the order these flags make; raises RequestError naming the field that cannot be."""
        width, height = sizes.resolve(self.size)
        return ImageRequest(
            prompt=self.prompt,
            negative_prompt=self.negative_prompt,
            n=self.n,
            width=width,
            height=height,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            seed=self.seed,
        )


def generate(
    model: Annotated[str, Parameter(help="a diffusers folder, or a model id on the hub")],
    /,
    *,
    image: ImageFlags,
    output: Annotated[
        Path,
        Parameter(
            name=["--output", "-o"],
            help="a .png, .jpg or .webp file (numbered when n > 1), or a folder; default: here, named after the seed",
            show_default=False,
        ),
    ] = Path(),
    engine: EngineFlags = EngineFlags(),  # noqa: B008  # frozen
) -> None:
    """Generate images and print the path of each."""
    place = Output.of(output)
    attention = engine.check()
    found = discover(model)
    request = image.request(
        SizeRules.of(found.path, found.row, max_image_size=engine.max_generated_image_size)
    )
    # From here on it costs seconds: everything that could be refused without torch has been.
    loaded = engine.build(model, attention)
    with shown(request.n) as on_progress:
        result = loaded.generate(request, on_progress=on_progress)
    for path, seed in zip(place.write(result), result.seeds, strict=True):
        print(path)
        if image.seed is None and sys.stderr.isatty():
            print(f"omni: {path}: seed {seed}", file=sys.stderr)
