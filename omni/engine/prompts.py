"""Prompts that a pipeline would cut or ignore without a word, refused with one."""

from __future__ import annotations

from typing import Any

from omni.engine.request import ImageRequest
from omni.errors import RequestError
from omni.models.catalog import PromptRule


def check_guidance(request: ImageRequest, rule: PromptRule) -> None:
    """Pass if a negative prompt would have an effect; raises RequestError where guidance_scale switches it off."""
    scale = request.guidance_scale
    if request.negative_prompt and scale is not None and scale <= rule.negative_above:
        raise RequestError(
            f"negative_prompt has no effect with guidance_scale {scale:g}; "
            f"leave it out, or use a guidance_scale above {rule.negative_above:g}",
            param="negative_prompt",
        )


def check_lengths(request: ImageRequest, rule: PromptRule, tokenizer: Any) -> None:
    """Pass if the pipeline reads both prompts to their end; raises RequestError naming their tokens and the limit."""
    for name, text in (("prompt", request.prompt), ("negative_prompt", request.negative_prompt)):
        if text is None:
            continue
        tokens = _count(text, rule, tokenizer)
        if tokens > rule.tokens:
            # The empty prompt is not free: the template around it counts as well.
            room = rule.tokens - _count("", rule, tokenizer)
            raise RequestError(
                f"{name} is too long: {tokens} tokens with the model's chat template, and this model reads "
                f"{rule.tokens}, about {room} of them yours; shorten it",
                param=name,
            )


def _count(text: str, rule: PromptRule, tokenizer: Any) -> int:
    written = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, **dict.fromkeys(rule.chat, True)
    )
    # Not verbose: the library would print that the text is too long, and so do we.
    return len(tokenizer(written, verbose=False).input_ids)
