"""A tokenizer made of bytes: no vocabulary to download, any text is legal, the same bytes every time."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PAD = "<|endoftext|>"
EOS = "<|im_end|>"
_START = "<|im_start|>"
_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(max_length: int) -> Any:
    """Return a byte-level tokenizer with a chat template; one token a byte, and the special tokens of Qwen."""
    specials = [PAD, _START, EOS]
    words = specials + sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(specials)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=PAD,
        model_max_length=max_length,
        padding_side="right",
        chat_template=_CHAT,
    )
