"""How deep this session goes, and which selected tests want to go deeper."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pytest

from omni_hardware.vocabulary import Vocabulary
from pytest_omni.arming import arming_of
from pytest_omni.machine import positive_of
from pytest_omni.options import AUTO, Settings, settings_of

_SHOWN_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class RunLevel:
    """One of the vocabulary's levels, and why it is this one; *weights* is what the level means for a model."""

    name: str
    because: str
    weights: str

    def __str__(self) -> str:
        return self.name


_LEVEL = pytest.StashKey[RunLevel]()


def level_of(config: pytest.Config) -> RunLevel:
    """Return the session's run level."""
    if _LEVEL not in config.stash:
        vocabulary = arming_of(config).vocabulary
        config.stash[_LEVEL] = run_level(settings_of(config), positive_of(config), vocabulary)
    return config.stash[_LEVEL]


def run_level(settings: Settings, positive: Collection[str], vocabulary: Vocabulary) -> RunLevel:
    """Return the level that is set, else the deepest that ``-m`` asks for, else the first one."""
    if settings.run_level != AUTO:
        return _level(settings.run_level, settings.sources.get("run_level", "asked for"), vocabulary)
    named = [level for level in vocabulary.levels if level in positive]
    if named:
        return _level(named[-1], f"-m names {named[-1]}", vocabulary)
    return _level(vocabulary.levels[0], "default: -m names no level", vocabulary)


def is_deeper(names: Collection[str], level: str, levels: tuple[str, ...]) -> str | None:
    """Return the level that a test with the marks *names* asks for, where that is deeper than *level*; else None.

    A test with several level marks can run at each of them: the shallowest counts, as it does for ``-m``.
    """
    marked = next((name for name in levels if name in names), None)
    return marked if marked is not None and levels.index(marked) > levels.index(level) else None


def deeper_message(level: RunLevel, deeper: Iterable[tuple[str, str]]) -> str:
    """Return what to say about tests, given as (node id, level), that go deeper than *level*."""
    found = list(deeper)
    deepest = dict.fromkeys(marked for _, marked in found)
    count = "1 selected test goes" if len(found) == 1 else f"{len(found)} selected tests go"
    advice = " or ".join(f"--run-level {name}" for name in deepest)
    lines = [
        f"{count} deeper than run level {level} ({level.because}): weights are {level.weights} there; run {advice}"
    ]
    lines += [f"  {nodeid} ({marked})" for nodeid, marked in found[:_SHOWN_AT_MOST]]
    if len(found) > _SHOWN_AT_MOST:
        lines.append(f"  … and {len(found) - _SHOWN_AT_MOST} more")
    return "\n".join(lines)


def _level(name: str, because: str, vocabulary: Vocabulary) -> RunLevel:
    # the shallowest level stands for a quick answer: a dummy load, or a tiny model in the place of the real one
    return RunLevel(name, because, "dummy or tiny" if name == vocabulary.levels[0] else "real")
