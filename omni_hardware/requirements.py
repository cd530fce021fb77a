"""What hardware a test needs: declared once, asked a platform at a time.

>>> str(build({"cuda": "H100", "rocm": ["MI300", "MI325"]}, num_cards={"cuda": 2}))
'cuda H100×2 or rocm (MI300 or MI325)'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from omni_hardware.errors import InputError
from omni_hardware.memory import parse_memory, shown_memory
from omni_hardware.requirement_checks import problems
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, GPU_MARK, Platform, Vocabulary

__all__ = [
    "Need",
    "Requirement",
    "build",
    "card_marks",
    "from_marks",
    "marks_on",
    "parse_memory",
    "problems",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is needed on one platform.

    skus: any one of them is enough, () is any device. cards: how many, 0 where a platform has none to count (cpu).
    min_memory_mib: the total memory of each card, in MiB.
    """

    platform: str
    skus: tuple[str, ...] = ()
    cards: int = 1
    min_memory_mib: int | None = None

    def __str__(self) -> str:
        """Return "cuda H100×2", "cuda (L4 or A100) with ≥ 40 GiB", "cpu"."""
        skus = " or ".join(self.skus)
        what = f" ({skus})" if len(self.skus) > 1 else f" {skus}" if skus else ""
        count = f"×{self.cards}" if self.cards > 1 else ""
        each = " each" if self.cards > 1 else ""
        memory = "" if self.min_memory_mib is None else f" with ≥ {shown_memory(self.min_memory_mib)}{each}"
        return f"{self.platform}{what}{count}{memory}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """The needs of one test, at most one a platform; *expand* asks for one variant of the test a platform."""

    needs: tuple[Need, ...]
    expand: bool = False

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it names, in the order in which they were written."""
        return tuple(need.platform for need in self.needs)

    @property
    def is_cpu_only(self) -> bool:
        """Whether it needs no device at all; such a test runs on every platform and sees none."""
        return all(need.cards == 0 for need in self.needs)

    def on(self, platform: str, also: Collection[str] = ()) -> Need | None:
        """Return what is needed where *platform* is asked for, or None: not a test for that platform.

        *also*: platforms whose tests this one runs as well (Platform.runs_items_of). Their SKUs say nothing about
        its devices, so any device will do.
        """
        if self.is_cpu_only:
            return self.needs[0]
        by_platform = {need.platform: need for need in self.needs}
        if platform in by_platform:
            return by_platform[platform]
        borrowed = next((by_platform[name] for name in also if name in by_platform), None)
        return None if borrowed is None else dataclasses.replace(borrowed, platform=platform, skus=())

    def only(self, platform: str) -> Requirement:
        """Return the requirement of the variant for *platform*."""
        return Requirement(tuple(need for need in self.needs if need.platform == platform))

    def __str__(self) -> str:
        """Return the needs as a person would say them."""
        return " or ".join(map(str, self.needs))


def build(
    res: object,
    *,
    num_cards: object = 1,
    min_memory: object = None,
    expand: object = None,
    vocabulary: Vocabulary = DEFAULT,
) -> Requirement:
    """Return the requirement that the arguments of ``hardware_test`` declare.

    res: platform → SKU or list of SKUs ("any" for any device). num_cards, min_memory ("40GiB", of each card): one
    value, or platform → value. expand: "platform" or None. Raises InputError with every problem, one a line.
    """
    found = problems(res, num_cards=num_cards, min_memory=min_memory, expand=expand, vocabulary=vocabulary)
    if found:
        raise InputError("\n".join(found))
    assert isinstance(res, Mapping)
    rows = {row.name: row for row in vocabulary.platforms}
    needs = (_need(rows[name], skus, num_cards=num_cards, memory=min_memory) for name, skus in res.items())
    return Requirement(tuple(needs), expand=expand is not None)


def marks_on(requirement: Requirement, platform: str, vocabulary: Vocabulary = DEFAULT) -> tuple[str, ...]:
    """Return the marks that a test carries where *platform* is asked for: platform, SKUs, gpu, cards_N.

    () where it is no test for that platform; a test that only needs cpu keeps "cpu" everywhere. A test that is
    there on another platform's behalf keeps that platform's name too, since its lane selects by it.
    """
    row = vocabulary.platform(platform)
    also = row.runs_items_of if row else ()
    need = requirement.on(platform, also)
    if need is None:
        return ()
    own = vocabulary.platform(need.platform)
    lent = (
        () if platform in requirement.platforms else (name for name in also if name in requirement.platforms)
    )
    return (
        need.platform,
        *(() if need.cards == 0 else tuple(lent)[:1]),
        *need.skus,
        *((GPU_MARK,) if own and own.gpu else ()),
        *((f"cards_{need.cards}",) if need.cards else ()),
    )


def from_marks(names: Collection[str], vocabulary: Vocabulary = DEFAULT) -> Requirement | None:
    """Return what marks written by hand ask for, or None without a platform or SKU among them.

    A platform is any device of it, SKUs are any one of them, "gpu" alone is every GPU platform; one card unless a
    cards_N says more. Contradictions are mark_rules' business: here the larger wish counts.
    """
    rows = _marked_platforms(names, vocabulary)
    if not rows:
        return None
    cards = max(card_marks(names, vocabulary), default=1)
    needs = (
        Need(
            platform=row.name,
            skus=tuple(sku for sku in row.skus if sku in names),
            cards=cards if row.visibility else 0,
        )
        for row in rows
    )
    return Requirement(tuple(needs))


def card_marks(names: Iterable[str], vocabulary: Vocabulary = DEFAULT) -> list[int]:
    """Return the counts of the cards_N marks among *names*, ascending."""
    known = {f"cards_{count}": count for count in vocabulary.cards}
    return sorted({known[name] for name in names if name in known})


def _need(row: Platform, skus: str | Collection[str], *, num_cards: object, memory: object) -> Need:
    listed = (skus,) if isinstance(skus, str) else tuple(skus)
    if not row.visibility:
        return Need(platform=row.name, cards=0)
    cards = num_cards.get(row.name, 1) if isinstance(num_cards, Mapping) else num_cards
    size = memory.get(row.name) if isinstance(memory, Mapping) else memory
    assert isinstance(cards, int)
    return Need(
        platform=row.name,
        skus=() if listed == (ANY_SKU,) else listed,
        cards=cards,
        min_memory_mib=None if size is None else parse_memory(size),
    )


def _marked_platforms(names: Collection[str], vocabulary: Vocabulary) -> list[Platform]:
    named = [
        row
        for row in vocabulary.platforms
        if row.name in names or any(sku in names for sku in row.skus if sku != ANY_SKU)
    ]
    if not named and GPU_MARK in names:
        return [row for row in vocabulary.platforms if row.gpu]
    return named
