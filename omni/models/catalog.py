"""What this runtime knows about each pipeline it serves: one row a pipeline class. Torch-free.

A new family is one row here and one builder in `models/tiny/<family>.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Attention modules whose path inside their denoiser matches *pattern* play *role*, of kind *category*."""

    pattern: str
    role: str
    category: str

    def matches(self, path: str) -> bool:
        return re.fullmatch(self.pattern, path) is not None


@dataclass(frozen=True, slots=True)
class PositionTable:
    """The denoiser's table of positions: *key* in its config.json, and the entries for sequence, rows and columns.

    Each position is one patch, or one token in the sequence; a larger image or a longer prompt would index past the
    table's end in the middle of a run. *least_sequence* is what the longest prompt needs.
    """

    key: str
    sequence: int
    rows: int
    columns: int
    least_sequence: int


@dataclass(frozen=True, slots=True)
class PromptRule:
    """What a pipeline does to prompts without a word, so that the engine can refuse it with one.

    It cuts them to *tokens*, counted after the tokenizer's chat template with the arguments *chat*, and reads a
    negative prompt only where guidance_scale is above *negative_above*.
    """

    tokens: int
    chat: tuple[str, ...]
    negative_above: float


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """One pipeline class: its parts, who plays which attention role, and what sizes and prompts it takes.

    *parts* are the components that its model_index.json lists, all of them and no others.

    *patch* is how many latent cells a side one token covers; the size factor is the VAE's scale times it.
    *default_size* is (width, height) in pixels where the checkpoint does not say.
    """

    family: str
    pipeline: str
    parts: tuple[str, ...]
    denoisers: tuple[str, ...]
    roles: tuple[RoleRule, ...]
    patch: int
    positions: PositionTable | None
    prompts: PromptRule
    default_size: tuple[int, int]

    def role_of(self, path: str) -> RoleRule | None:
        """Return the rule of the attention module at *path* inside a denoiser, None when no rule knows it."""
        return next((rule for rule in self.roles if rule.matches(path)), None)

    @property
    def role_names(self) -> tuple[str, ...]:
        """Every name that `per_role` may use for this pipeline: roles first, then categories."""
        roles = [rule.role for rule in self.roles]
        return tuple(dict.fromkeys([*roles, *(rule.category for rule in self.roles)]))


_ROWS = (
    CatalogRow(
        family="z_image",
        pipeline="ZImagePipeline",
        parts=("scheduler", "text_encoder", "tokenizer", "transformer", "vae"),
        denoisers=("transformer",),
        roles=(
            RoleRule(r"layers\.\d+\.attention", "z_image.self", "self"),
            RoleRule(r"noise_refiner\.\d+\.attention", "z_image.noise_refiner", "self"),
            RoleRule(r"context_refiner\.\d+\.attention", "z_image.context_refiner", "self"),
            RoleRule(r"siglip_refiner\.\d+\.attention", "z_image.siglip_refiner", "self"),
        ),
        patch=2,
        # Positions count from 1 and the image stands behind the prompt: 512 tokens make 513 the last one.
        positions=PositionTable("axes_lens", sequence=0, rows=1, columns=2, least_sequence=514),
        prompts=PromptRule(tokens=512, chat=("add_generation_prompt", "enable_thinking"), negative_above=0.0),
        default_size=(1024, 1024),
    ),
)

CATALOG: dict[str, CatalogRow] = {row.pipeline: row for row in _ROWS}
