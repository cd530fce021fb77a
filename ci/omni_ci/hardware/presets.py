"""Hardware presets: one block a SKU, one name a card count, and the literal fragments of older files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any

from omni_ci.hardware.preset_rows import PLACEHOLDER, Fragment, PresetsFile, SkuPreset
from omni_ci.yaml.document import LocatedDict, LocatedList, Problem, Where
from omni_ci.yaml.loading import LoadError, load_document
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.project import own_words
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, Vocabulary

__all__ = ["Fragment", "Preset", "Presets", "SkuPreset", "load_presets", "package_presets"]
PACKAGE_FILE = "omni_ci/data/presets.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A name a step can ask for. *cards* is None for a literal fragment whose name ends in no number."""

    name: str
    cards: int | None
    row: SkuPreset | Fragment

    @property
    def where(self) -> Where:
        """Return where its block starts."""
        return self.row.where

    @property
    def queue(self) -> str | None:
        """Return the queue its jobs wait in, None where a fragment names none."""
        if isinstance(self.row, SkuPreset):
            return str(self.filled(self.row.queue))
        return self.row.agents.get("queue") if isinstance(self.row.agents, dict) else None

    @property
    def image(self) -> str | None:
        return None if self.row.image is None else str(self.filled(self.row.image))

    @property
    def platform(self) -> str | None:
        return self.row.platform if isinstance(self.row, SkuPreset) else None

    @property
    def is_the_packages(self) -> bool:
        """Return whether it ships with the package, for lack of one in the repository."""
        return self.where.file == PACKAGE_FILE

    def filled(self, value: Any) -> Any:
        """Return *value* with `{cards}` replaced in every text of it; a literal fragment's texts stay as they are."""
        if isinstance(self.row, Fragment):
            return value
        if isinstance(value, str):
            return PLACEHOLDER.sub(str(self.cards), value)
        if isinstance(value, Mapping):
            return {self.filled(key): self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Presets:
    """Every preset of one file, in the file's order; those of the package stand below it."""

    file: str
    by_name: Mapping[str, Preset]
    notices: tuple[str, ...] = ()

    def get(self, name: str) -> Preset | None:
        """Return the preset called *name*, the repository's or else the package's; None where neither has it."""
        return self.by_name.get(name) or package_presets().get(name)

    @property
    def places(self) -> Mapping[str, str]:
        """The "file:line" of every preset that `get` knows."""
        both = {**package_presets(), **self.by_name}
        return {name: f"{preset.where.file}:{preset.where.line}" for name, preset in both.items()}

    def find(self, name: str, *, at: str) -> Preset:
        """Return the preset called *name*; *at* ("file:line: step 'x'") is where it was asked for. Raises InputError."""
        if (found := self.get(name)) is None:
            known = (*self.by_name, *(() if self.by_name else package_presets()))
            raise InputError(
                f"{at}: unknown preset {name!r}{did_you_mean(name, known)}; presets are in {self.file}"
            )
        return found


@cache
def package_presets() -> Mapping[str, Preset]:
    """Return the presets that ship with the package: the pools of the older AMD shape."""
    text = files("omni_ci").joinpath("data/presets.yml").read_text(encoding="utf-8")
    loaded = load_document(text, PACKAGE_FILE, PresetsFile)
    return {preset.name: preset for preset in _presets(loaded)}


def load_presets(text: str | bytes, *, name: str, vocabulary: Vocabulary = DEFAULT) -> Presets:
    """Return the presets in *text*; *name* is the file's path for messages.

    Raises LoadError with all problems: unknown keys, platforms, SKUs, card counts and placeholders, quantities
    Kubernetes would refuse, and two presets of one name.
    """
    loaded = load_document(text, name, PresetsFile, check=partial(_against, vocabulary))
    every = list(_presets(loaded))
    by_name: dict[str, Preset] = {}
    twice: list[Problem] = []
    for preset in every:
        if preset.name in by_name:
            first = by_name[preset.name].where
            twice.append(
                Problem(preset.where, f"preset {preset.name!r} is already made by line {first.line}")
            )
        by_name.setdefault(preset.name, preset)
    if twice:
        raise LoadError(twice)
    notices = (f"{name}: mirror_hardwares: is read as fragments:",) if loaded.mirror_hardwares else ()
    return Presets(file=name, by_name=by_name, notices=notices)


def _presets(loaded: PresetsFile) -> Iterator[Preset]:
    for name, row in loaded.skus.items():
        for cards in row.cards:
            yield Preset(name=f"{name}_{cards}", cards=cards, row=row)
    for name, fragment in (*loaded.fragments.items(), *loaded.mirror_hardwares.items()):
        suffix = re.search(r"_(\d+)$", name)
        yield Preset(name=name, cards=int(suffix[1]) if suffix else None, row=fragment)


def _against(vocabulary: Vocabulary, document: Any) -> Iterator[Problem]:
    """Yield the words of the SKU blocks that *vocabulary* does not know."""
    blocks = document.get("skus") if isinstance(document, LocatedDict) else None
    for name, block in blocks.items() if isinstance(blocks, LocatedDict) else ():
        if isinstance(block, LocatedDict):
            yield from _block_against(vocabulary, f"skus.{name}", block)


def _block_against(vocabulary: Vocabulary, path: str, block: LocatedDict) -> Iterator[Problem]:
    platforms = [row.name for row in vocabulary.platforms if row.skus != (ANY_SKU,)]
    platform, sku, cards = block.get("platform"), block.get("sku"), block.get("cards")
    row = vocabulary.platform(platform) if isinstance(platform, str) and platform in platforms else None
    if isinstance(platform, str) and row is None:
        what = f"{path}.platform: unknown platform {platform!r}{did_you_mean(platform, platforms)}"
        yield Problem(block.keys_at["platform"], what)
    if row is not None and isinstance(sku, str) and sku not in row.skus:
        hint = f"{did_you_mean(sku, row.skus)}; {own_words('skus', row.name)}"
        yield Problem(block.keys_at["sku"], f"{path}.sku: unknown SKU {sku!r} of platform {row.name!r}{hint}")
    if isinstance(cards, LocatedList):
        known = vocabulary.cards
        for count, where in zip(cards, cards.items_at, strict=True):
            if isinstance(count, int) and count not in known:
                yield Problem(where, f"{path}.cards: {count} is not among {known[0]}…{known[-1]}")
