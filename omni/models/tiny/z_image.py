"""A tiny Z-Image: two layers and one of each refiner, random weights, a few MB."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
from safetensors import SafetensorError
from transformers import Qwen3Config, Qwen3Model

from omni.models.silence import quiet_libraries
from omni.models.tiny.tokenizer import byte_tokenizer

_PROMPT_TOKENS = 512  # what the pipeline pads every prompt to
_POSITIONS = [1024, 32, 32]  # prompt (and the image after it), rows, columns: up to 512x512 pixels
_DEFAULT_SIZE = "64x64"
_HIDDEN = 32


def write(folder: Path, seed: int) -> None:
    """Fill *folder* with the checkpoint and its default size."""
    tokenizer = byte_tokenizer(_PROMPT_TOKENS)
    # Module constructors draw their weights from torch's global generator: the caller's state is kept.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pipeline = ZImagePipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
            vae=_vae(),
            text_encoder=_text_encoder(len(tokenizer)),
            tokenizer=tokenizer,
            transformer=_transformer(),
        )
    with quiet_libraries():
        try:
            pipeline.save_pretrained(folder, safe_serialization=True)
        except SafetensorError as fault:  # how it reports a full disk
            raise OSError(str(fault)) from None
    (folder / "omni.json").write_text(
        json.dumps({"schema": 1, "default_size": _DEFAULT_SIZE}) + "\n", encoding="utf-8"
    )


def _vae() -> AutoencoderKL:
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8, 8, 8, 8),  # four levels: 8 pixels a latent cell, as in the real one
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        scaling_factor=0.3611,
        shift_factor=0.1159,
        use_quant_conv=False,
        use_post_quant_conv=False,
    ).eval()


def _text_encoder(vocabulary: int) -> Qwen3Model:
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=_HIDDEN,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=_PROMPT_TOKENS,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
    )
    return Qwen3Model(config).eval()


def _transformer() -> ZImageTransformer2DModel:
    return ZImageTransformer2DModel(
        in_channels=4,
        dim=32,
        n_layers=2,
        n_refiner_layers=1,
        n_heads=2,
        n_kv_heads=2,
        cap_feat_dim=_HIDDEN,
        axes_dims=[4, 6, 6],
        axes_lens=_POSITIONS,
    ).eval()
