"""Which hardware marks cannot stand on one test together, whoever put them there.

Marks by hand stay on a test whatever platform is asked for; ``hardware_test`` puts on those that apply. So a mark by
hand beside a requirement must be one that the requirement gives on each of its platforms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from omni_hardware.requirements import Requirement, card_marks, marks_on
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, GPU_MARK, Platform, Vocabulary

_REMEDY = "hardware_test(res={...}) names each platform with its own SKU"


def conflicts(
    names: Collection[str],
    requirement: Requirement | None,
    vocabulary: Vocabulary = DEFAULT,
    *,
    complete: bool = True,
) -> list[str]:
    """Return what is contradictory in the marks of one test, one line each; [] where all is well.

    names: the marks written by hand, inherited ones included; words that say nothing of hardware are ignored.
    complete: False where there may be more of them: then nothing is said to be missing.
    """
    written = [word for word in hardware_words(vocabulary) if word in names]
    if not written:
        return []
    if requirement is not None:
        return list(_beside(written, requirement, vocabulary))
    return [
        problem for rule in (_RULES if complete else _CONTRADICTIONS) for problem in rule(written, vocabulary)
    ]


def hardware_words(vocabulary: Vocabulary = DEFAULT) -> tuple[str, ...]:
    """Return every marker that says something about hardware: platforms, SKUs, gpu, cards_N."""
    return tuple(_hardware_words(vocabulary))


def _hardware_words(vocabulary: Vocabulary) -> Iterator[str]:
    for row in vocabulary.platforms:
        yield row.name
        yield from (sku for sku in row.skus if sku != ANY_SKU)
    yield GPU_MARK
    yield from (f"cards_{count}" for count in vocabulary.cards)


def _cpu_and_device(written: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    """A test that needs no device, and needs one."""
    without = [row.name for row in vocabulary.platforms if not row.visibility and row.name in written]
    devices = [word for word in written if word not in without]
    for name in without:
        if devices:
            yield (
                f"{name} and {_listed(devices)} on one test: the first needs no device, the other does; "
                f"keep one, or hardware_test(res={{{name!r}: {ANY_SKU!r}, ...}}) for a test that runs on both"
            )


def _skus_of_several_platforms(written: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    by_platform = _skus(written, vocabulary)
    if len(by_platform) > 1:
        yield f"{_owned(by_platform)} on one test: SKUs of different platforms; {_REMEDY}"


def _sku_of_another_platform(written: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    by_platform = _skus(written, vocabulary)
    others = [row.name for row in vocabulary.platforms if row.visibility and row.name in written]
    others = [name for name in others if name not in by_platform]
    if len(by_platform) == 1 and others:
        yield f"{_owned(by_platform)} beside {_listed(others)}: {_REMEDY}"


def _sku_without_cards(written: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    by_platform = _skus(written, vocabulary)
    if by_platform and not card_marks(written, vocabulary):
        platform, skus = next(iter(by_platform.items()))
        yield (
            f"{_listed([sku for row in by_platform.values() for sku in row])} without a number of cards; add cards_1, "
            f"or write hardware_test(res={{{platform!r}: {skus[0]!r}}})"
        )


def _several_counts(written: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    counts = _counts(written, vocabulary)
    if len(counts) > 1:
        yield f"{_listed(counts)} on one test: keep one"


def _cards_of_nobody(written: list[str], vocabulary: Vocabulary) -> Iterator[str]:
    counts = _counts(written, vocabulary)
    if len(counts) == len(written):
        yield f"{_listed(counts)} without a platform: say whose cards, as hardware_test(res={{...}}, num_cards=...)"


_CONTRADICTIONS = (_cpu_and_device, _skus_of_several_platforms, _sku_of_another_platform, _several_counts)
_RULES = (*_CONTRADICTIONS, _sku_without_cards, _cards_of_nobody)


def _beside(written: list[str], requirement: Requirement, vocabulary: Vocabulary) -> Iterator[str]:
    for word in written:
        lacking = [
            name for name in requirement.platforms if word not in marks_on(requirement, name, vocabulary)
        ]
        if lacking == list(requirement.platforms):
            yield f"{word} by hand contradicts {requirement}, which the test requires; remove one of the two"
        elif lacking:
            yield (
                f"{word} by hand would stay on the test on {_listed(lacking)}, where {requirement} does not give it; "
                "remove it, the requirement puts it on where it applies"
            )


def _skus(written: list[str], vocabulary: Vocabulary) -> dict[str, list[str]]:
    found = {row.name: _skus_of(row, written) for row in vocabulary.platforms}
    return {name: skus for name, skus in found.items() if skus}


def _skus_of(row: Platform, written: list[str]) -> list[str]:
    return [sku for sku in row.skus if sku in written and sku != ANY_SKU]


def _counts(written: list[str], vocabulary: Vocabulary) -> list[str]:
    return [f"cards_{count}" for count in card_marks(written, vocabulary)]


def _owned(by_platform: dict[str, list[str]]) -> str:
    return _listed([f"{sku} ({name})" for name, skus in by_platform.items() for sku in skus])


def _listed(words: list[str]) -> str:
    return " and ".join(words)
