"""What a request body may say. Null is absent; unknown fields are refused; what we cannot honour is refused, not ignored."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from omni.engine.request import SEED_MAX, SEED_MIN


class ImageBody(BaseModel):
    """The body of POST /v1/images/generations (OpenAI's fields, plus those of a diffusion model)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    prompt: str = Field(min_length=1)
    model: str | None = None
    n: int = Field(1, ge=1, le=10)
    size: str | None = Field(None, description="WxH in pixels, or auto: the checkpoint's default")
    response_format: str | None = None
    output_format: Literal["png", "jpeg", "webp"] = "png"
    user: str | None = Field(None, description="accepted and not used: it asks for nothing")

    negative_prompt: str | None = None
    num_inference_steps: int | None = Field(None, ge=1, le=200)
    guidance_scale: float | None = Field(None, ge=0, le=20)
    seed: int | None = Field(None, ge=SEED_MIN, le=SEED_MAX, description="image i has seed + i")

    # OpenAI's own fields without a counterpart here: only the value that changes nothing is accepted.
    quality: Literal["auto", "standard"] | None = None
    style: Literal["vivid"] | None = None
    background: Literal["auto", "opaque"] | None = None
    moderation: Literal["auto"] | None = None
    output_compression: Literal[100] | None = None
    partial_images: Literal[0] | None = None
    stream: Literal[False] | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, body: Any) -> Any:
        # For every field alike, as in OpenAI's clients; an unknown one is still unknown.
        if not isinstance(body, dict):
            return body
        return {
            name: value for name, value in body.items() if value is not None or name not in cls.model_fields
        }

    @field_validator("response_format")
    @classmethod
    def _inline_only(cls, value: str | None) -> str | None:
        if value in {None, "b64_json"}:
            return value
        why = "this server keeps no files to link to" if value == "url" else "no such format"
        raise ValueError(f"'response_format' {value!r}: {why}; leave it out or send 'b64_json'")
