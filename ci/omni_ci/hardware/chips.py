"""The chips a presets file has, each a family of presets that differ in their count only; and which one is meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from omni_ci.hardware.presets import Preset, Presets, SkuPreset
from omni_hardware.errors import InputError, did_you_mean
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, Vocabulary

CHIP_VARIABLE = "MIRROR_HW"
# Of several SKUs in one step's marks the first of these is taken, then the others as the vocabulary lists them.
PREFERRED = ("H100", "L4")
# Too scarce to be taken because a test could use them: only where MIRROR_HW asks.
ON_DEMAND = ("B200",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """`h100` with `h100_1`, `h100_2` …; *sku* and *platform* are None for a name that is no SKU's."""

    name: str
    sku: str | None
    platform: str | None
    by_cards: Mapping[int, str]


def chips_of(presets: Presets, vocabulary: Vocabulary = DEFAULT) -> tuple[Chip, ...]:
    """Return the chips of *presets* in the file's order; a literal fragment's SKU is told by its name alone."""
    families: dict[str, list[Preset]] = {}
    for preset in presets.by_name.values():
        if preset.cards is not None:
            families.setdefault(preset.name.rpartition("_")[0], []).append(preset)
    return tuple(_chip(name, family, vocabulary) for name, family in families.items())


def asked_chip(
    name: str | None, chips: Collection[Chip], *, platform: str | None, file: str, vocabulary: Vocabulary
) -> tuple[Chip | None, str | None]:
    """Return the chip called *name*, or None and why pipelines of *platform* ignore it; without a name neither.

    *file* is that of the presets. Raises InputError for a chip that they do not have.
    """
    if not name:
        return None, None
    called = name.casefold()
    found = next(
        (chip for chip in chips if called in {chip.name.casefold(), (chip.sku or "").casefold()}), None
    )
    sku = found.sku if found else _sku_called(name, vocabulary)
    row = vocabulary.platform_of(sku) if sku else None
    home = found.platform if found else row.name if row else None
    if platform and home and home != platform:
        return None, f"{CHIP_VARIABLE}={name} is {home} hardware; {platform} pipelines ignore it"
    if found is None or found.sku is None:
        known = [chip.name for chip in chips if chip.sku and platform in {None, chip.platform}]
        hint = did_you_mean(name, known) or ", nor of any other SKU"
        raise InputError(f"{CHIP_VARIABLE}={name}: {file} has no presets of such a chip{hint}")
    return found, None


def chip_for(skus: Collection[str], chips: Iterable[Chip], vocabulary: Vocabulary = DEFAULT) -> Chip | None:
    """Return the chip to take for a step that can use any of *skus*: the first one, as preferred, that has presets.

    Presets that are called by their SKU go before others of the same one (`l4` before `l4_docker`).
    """
    by_sku: dict[str | None, list[Chip]] = {}
    for chip in chips:
        by_sku.setdefault(chip.sku, []).append(chip)
    order = [*PREFERRED, *(sku for row in vocabulary.platforms for sku in row.skus)]
    for sku in order:
        if sku in skus and sku not in ON_DEMAND and sku in by_sku:
            alike = by_sku[sku]
            return next((chip for chip in alike if chip.name.casefold() == sku.casefold()), alike[0])
    return None


def _chip(name: str, family: list[Preset], vocabulary: Vocabulary) -> Chip:
    row = family[0].row
    sku = row.sku if isinstance(row, SkuPreset) else _sku_called(name, vocabulary)
    home = vocabulary.platform_of(sku) if sku else None
    return Chip(
        name=name,
        sku=sku,
        platform=family[0].platform or (home.name if home else None),
        by_cards={preset.cards: preset.name for preset in family if preset.cards is not None},
    )


def _sku_called(name: str, vocabulary: Vocabulary) -> str | None:
    skus = (sku for row in vocabulary.platforms for sku in row.skus if sku != ANY_SKU)
    return next((sku for sku in skus if sku.casefold() == name.casefold()), None)
