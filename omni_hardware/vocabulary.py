"""Which platforms, SKUs, card counts, run levels and topics exist: one table, from which every other list derives.

A new SKU is one word in one row; a new platform is one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

CARDS: tuple[int, ...] = tuple(range(1, 17))
GPU_MARK = "gpu"
ANY_SKU = "any"  # a platform without models to tell apart; never a marker


@dataclass(frozen=True, slots=True)
class Platform:
    """One kind of device.

    visibility: the variables that decide which devices a process sees; all of them are written, with one value.
    runs_items_of: platforms whose tests this one runs as well.
    products: (SKU, pattern) for products that are not called by the SKU's own name; the rest are found as a word.
    """

    name: str
    gpu: bool
    visibility: tuple[str, ...]
    skus: tuple[str, ...]
    runs_items_of: tuple[str, ...] = ()
    products: tuple[tuple[str, str], ...] = ()

    def sku_of(self, product: str) -> str | None:
        """Return the SKU of a product's name as its tool prints it, or None for one that no row knows.

        >>> PLATFORMS["cuda"].sku_of("NVIDIA H100 80GB HBM3"), PLATFORMS["cuda"].sku_of("NVIDIA GH200 480GB")
        ('H100', None)
        """
        named = {sku: re.escape(sku) for sku in self.skus if sku != ANY_SKU}
        for sku, pattern in {**named, **dict(self.products)}.items():
            if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", product, re.ASCII | re.IGNORECASE):
                return sku
        return None


# ROCm reads CUDA_VISIBLE_DEVICES too: unequal lists crash several frameworks at import, so both are written.
_ROWS = (
    Platform("cuda", True, ("CUDA_VISIBLE_DEVICES",), ("L4", "A100", "H20", "H100", "H200", "H800", "B200")),
    Platform(
        "rocm",
        True,
        ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        ("MI250", "MI300", "MI325", "MI355"),
        products=(
            ("MI250", "MI250X?"),
            ("MI300", "MI300[AX]?"),
            ("MI325", "MI325X?"),
            ("MI355", "MI355X?"),
        ),
    ),
    Platform("xpu", True, ("ZE_AFFINITY_MASK",), ("B60",)),
    Platform(
        "npu",
        False,
        ("ASCEND_RT_VISIBLE_DEVICES",),
        ("A2", "A3", "A5", "310P"),
        # The chips' names: a system is called A2, npu-smi prints 910B2C. 910A, 910B and 910ProB are older than A2.
        products=(
            ("A2", r"(?:Ascend ?)?910_?B\d[A-Z]?"),
            ("A3", r"Ascend ?910(?:_?93\d\d)?|910_?93\d\d"),
            ("A5", r"(?:Ascend ?)?950[A-Z]*"),
            ("310P", r"(?:Ascend ?)?310P\d?"),
        ),
    ),
    Platform("musa", True, ("MUSA_VISIBLE_DEVICES",), ("S5000",)),
    Platform("cpu", False, (), (ANY_SKU,)),
)
PLATFORMS: dict[str, Platform] = {row.name: row for row in _ROWS}

# Shallow to deep: a level includes what stands before it.
RUN_LEVELS: tuple[str, ...] = ("core_model", "advanced_model", "full_model")
SELECTION_MARKS: tuple[str, ...] = ("slow", "local_model")
TOPICS: tuple[str, ...] = ("diffusion", "omni", "tts", "cache", "parallel", "benchmark", "example")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Every word a test, a pipeline or a command line may use for hardware and depth."""

    platforms: tuple[Platform, ...] = _ROWS
    cards: tuple[int, ...] = CARDS
    levels: tuple[str, ...] = RUN_LEVELS
    selection: tuple[str, ...] = SELECTION_MARKS
    topics: tuple[str, ...] = TOPICS

    def platform(self, name: str) -> Platform | None:
        """Return the row called *name*, or None."""
        return next((row for row in self.platforms if row.name == name), None)

    def platform_of(self, sku: str) -> Platform | None:
        """Return the platform that has *sku*, or None; "any" belongs to no single platform."""
        if sku == ANY_SKU:
            return None
        return next((row for row in self.platforms if sku in row.skus), None)

    def words(self) -> dict[str, str]:
        """Return every marker name with what it stands for, in the order people read them."""
        return dict(self._words())

    def marker_lines(self) -> list[str]:
        """Return "name: what it means" for each marker, as pytest's ``markers`` setting takes them."""
        return [f"{name}: {meaning}" for name, meaning in self._words()]

    def _words(self) -> Iterator[tuple[str, str]]:
        for row in self.platforms:
            yield row.name, f"needs the {row.name} platform"
        yield GPU_MARK, "needs a GPU of any platform"
        for row in self.platforms:
            yield from ((sku, f"needs this {row.name} device") for sku in row.skus if sku != ANY_SKU)
        for count in self.cards:
            yield f"cards_{count}", f"needs {count} card{'s' if count > 1 else ''}"
        for depth, level in enumerate(self.levels, start=1):
            yield level, f"run level {depth} of {len(self.levels)}"
        yield from ((mark, "selection") for mark in self.selection)
        yield from ((topic, "topic") for topic in self.topics)


DEFAULT = Vocabulary()
