"""The flags that every command with an engine has, and the engine they describe."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from omni.attention.registry import validate
from omni.config.attention import AttentionConfig, from_environment
from omni.errors import InputError, did_you_mean
from omni.models.sizes import parse_max_image_size
from omni.platforms.devices import AUTO, BACKENDS, DTYPES

if TYPE_CHECKING:
    from omni import Omni


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """Where and how the model runs."""

    device: Annotated[
        str, Parameter(help="cpu, cuda, rocm, xpu, …; exactly that one, or an error. auto: the best here")
    ] = "auto"
    dtype: Annotated[
        str, Parameter(help="float32, bfloat16 or float16; auto: float32 on cpu, else bfloat16")
    ] = "auto"
    max_generated_image_size: Annotated[
        str | None, Parameter(help="largest image as WIDTH*HEIGHT pixels; default 7680*4320")
    ] = None
    diffusion_attention_backend: Annotated[
        str | None, Parameter(help="attention backend of every role, short for default.backend")
    ] = None
    diffusion_attention_config: Annotated[
        str | None,
        Parameter(
            help="backend for each role: JSON, or dotted as in --diffusion-attention-config.per_role.self.backend NAME"
        ),
    ] = None

    def check(self) -> AttentionConfig:
        """Judge all that can be judged without loading anything; return the wishes of flags and environment."""
        _require_known("--device", self.device.lower(), (AUTO, *BACKENDS))
        _require_known("--dtype", self.dtype, (AUTO, *DTYPES))
        if self.max_generated_image_size is not None:
            parse_max_image_size(self.max_generated_image_size)
        wishes = from_environment(
            self.diffusion_attention_config, self.diffusion_attention_backend, os.environ
        )
        validate(wishes)
        return wishes

    def build(self, model: str, attention: AttentionConfig) -> Omni:
        """Load *model* as these flags say."""
        from omni.engine.engine import Omni

        return Omni(
            model,
            device=self.device,
            dtype=self.dtype,
            attention=attention,
            max_image_size=self.max_generated_image_size,
        )


def _require_known(flag: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise InputError(
            f"{flag} {value!r} is not known{did_you_mean(value, valid)}; valid: {', '.join(valid)}"
        )
