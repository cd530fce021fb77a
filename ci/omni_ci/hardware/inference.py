"""The hardware of steps that name none, read from the `-m` of their pytest runs; and what does not fit what was asked.

A step says its hardware in one of three ways: `mirror_hardwares` (taken as it is), `agents`/`plugins`/`image`
(left as it is), or the marks its tests are selected by. Marks that name no device leave a CPU job.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from omni_ci.hardware.chips import CHIP_VARIABLE, ON_DEMAND, Chip, asked_chip, chip_for, chips_of
from omni_ci.hardware.presets import Presets
from omni_ci.hardware.told_once import ToldOnce, place_of
from omni_ci.interpolation import at_run_time
from omni_ci.shell.hidden_marks import hidden_marks
from omni_ci.shell.runs import PytestRun, pytest_runs
from omni_ci.yaml.document import Problem
from omni_ci.yaml.loading import LoadError
from omni_ci.yaml.model import Group, Leaf, PipelineFile, Step
from omni_ci.yaml.older_amd import DEFAULT_MIRROR, left_out, require_mirror
from omni_ci.yaml.tests_block import word_problems
from omni_hardware.errors import InputError
from omni_hardware.expression import ExpressionError, parse
from omni_hardware.vocabulary import ANY_SKU, DEFAULT, Vocabulary

_parsed = lru_cache(maxsize=4096)(parse)  # a file has few expressions
# What decides a step's machine without a preset.
OWN_HARDWARE = ("agents", "plugins", "image")
_CARDS = re.compile(r"cards_(?P<count>.*)", re.DOTALL)
# What a run's problem starts with that leaves its `-m` as it is.
_NOT_THE_MARKS = ("-k ", "--run-level ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A pipeline whose steps have their hardware. *unfit* says by ident why a step's does not fit what was asked."""

    pipeline: PipelineFile
    unfit: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def fitted(
    pipeline: PipelineFile,
    presets: Presets,
    *,
    platform: str | None,
    mirror_hw: str | None = None,
    amd_mirror_hw: str | None = None,
    vocabulary: Vocabulary = DEFAULT,
    more_marks: Collection[str] = (),
) -> Fitted:
    """Return *pipeline* with a preset for every step whose marks name a device.

    *platform* is that of the file's folder (None: any), *mirror_hw* the chip that all steps shall use instead,
    *amd_mirror_hw* which mirror's steps of an older AMD file run, *more_marks* what the project calls its tests
    beyond *vocabulary*. Raises InputError for a chip that does not exist, and LoadError with every step whose marks
    cannot be followed.
    """
    chips = chips_of(presets, vocabulary)
    asked, ignored = asked_chip(mirror_hw, chips, platform=platform, file=presets.file, vocabulary=vocabulary)
    lists = [leaf.mirrors for _, leaf in pipeline.leaves() if isinstance(leaf, Step)]
    if amd_mirror_hw and any(one is not None for one in lists):
        require_mirror(amd_mirror_hw, lists)
    fitting = _Fitting(
        chips=chips,
        presets=presets,
        platform=platform,
        asked=asked,
        mirror=amd_mirror_hw or DEFAULT_MIRROR,
        vocabulary=vocabulary,
        more_marks=more_marks,
        environment=pipeline.env or {},
    )
    steps = tuple(fitting.item(item) for item in pipeline.steps)
    if fitting.problems:
        raise LoadError(fitting.problems)
    return Fitted(
        pipeline=pipeline.model_copy(update={"steps": steps}),
        unfit=fitting.unfit,
        notices=(*pipeline.notices, *([ignored] if ignored else []), *fitting.told.notices()),
    )


def require_presets(pipeline: PipelineFile, presets: Presets) -> None:
    """Raise InputError naming every preset of *pipeline* that does not exist, a line each."""
    lines: list[str] = []
    for _, leaf in pipeline.leaves():
        if isinstance(leaf, Step) and leaf.mirror_hardwares is not None:
            try:
                presets.find(leaf.mirror_hardwares, at=place_of(leaf))
            except InputError as error:
                lines.append(str(error))
    if lines:
        raise InputError("\n".join(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What the marks of a step's runs ask for: SKUs, card counts as written, and whether they only refuse counts.

    problems: why marks cannot be followed; unknown: words of runs without `-m` that may hold one.
    """

    skus: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()
    refuses_counts: bool = False
    platforms: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def asking(
    commands: Sequence[str], vocabulary: Vocabulary = DEFAULT, *, environment: Mapping[str, str] | None = None
) -> Asking:
    """Return what all pytest runs of *commands* ask for together; what stands under a `not` asks for nothing.

    *environment*: the variables that their step sets.
    """
    skus = {sku for row in vocabulary.platforms for sku in row.skus if sku != ANY_SKU}
    positive: set[str] = set()
    every: set[str] = set()
    problems: list[str] = []
    for command in commands:
        script = at_run_time(command)
        for run in pytest_runs(script):
            problems += _unclear(run, script, skus)
            try:
                expression = _parsed(run.marks or "")
            except ExpressionError as error:
                problems.append(f"-m {error}")
                continue
            positive |= expression.positive
            every |= {name for name, _ in expression.names}
    hidden = hidden_marks(at_run_time("\n".join(commands)), environment or {}, skus)
    return Asking(
        skus=frozenset(positive & skus),
        counts=frozenset(_counts(positive)),
        refuses_counts=any(_counts(every - positive)),
        platforms=frozenset(row.name for row in vocabulary.platforms if row.visibility) & positive,
        problems=tuple(dict.fromkeys([*problems, *hidden.problems])),
        unknown=hidden.unknown,
    )


def _unclear(run: PytestRun, script: str, skus: Collection[str]) -> Iterator[str]:
    """Yield why the marks of *run* may be others than they seem, where devices are in play."""
    if run.problem is None or run.problem.startswith(_NOT_THE_MARKS):
        return
    words = re.findall(r"\w+", script)
    if run.problem.startswith("-m ") or any(word in skus or _CARDS.fullmatch(word) for word in words):
        yield run.problem


def _counts(names: Iterable[str]) -> Iterator[str]:
    return (found["count"] for name in names if (found := _CARDS.fullmatch(name)))


@dataclass(slots=True, kw_only=True)
class _Fitting:
    """One pipeline being fitted, step by step."""

    chips: tuple[Chip, ...]
    presets: Presets
    platform: str | None
    asked: Chip | None
    mirror: str
    vocabulary: Vocabulary
    more_marks: Collection[str]
    environment: Mapping[str, str]
    told: ToldOnce = field(default_factory=ToldOnce)
    unfit: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def item(self, item: Group | Leaf) -> Group | Leaf:
        if isinstance(item, Group):
            return item.model_copy(update={"steps": tuple(self._leaf(leaf) for leaf in item.steps)})
        return self._leaf(item)

    def _leaf(self, leaf: Leaf) -> Leaf:
        if not isinstance(leaf, Step):
            return leaf
        self.problems += word_problems(leaf.tests, self.vocabulary, self.more_marks)
        if reason := left_out(leaf.mirrors, self.mirror):
            self.unfit[leaf.ident] = reason
        if leaf.mirror_hardwares is not None:
            self._explicit(leaf, leaf.mirror_hardwares)
            return leaf
        if any(getattr(leaf, name) is not None for name in OWN_HARDWARE):
            return leaf
        environment = {**self.environment, **(leaf.env or {})}
        name = self._preset(leaf, asking(leaf.commands, self.vocabulary, environment=environment))
        return leaf if name is None else leaf.model_copy(update={"mirror_hardwares": name})

    def _explicit(self, leaf: Step, name: str) -> None:
        """A preset of another chip than the one asked for does not fit; other platforms have not been asked."""
        chip = next((chip for chip in self.chips if name in chip.by_cards.values()), None)
        if self.asked is None or chip is None or chip.sku is None or chip.platform != self.asked.platform:
            return
        if chip.sku != self.asked.sku:
            why = f"{CHIP_VARIABLE}={self.asked.name}, and its preset {name!r} is {chip.sku}"
            self.unfit.setdefault(leaf.ident, why)

    def _preset(self, leaf: Step, wanted: Asking) -> str | None:
        """Return the preset *wanted* leads to; None for a CPU job, and for a step that does not fit or is wrong."""
        if wanted.problems:
            for problem in wanted.problems:
                self._problem(
                    leaf, f"{problem}; its hardware is read from -m: mend it, or name `mirror_hardwares:`"
                )
            return None
        if not (wanted.skus or wanted.counts):  # a count that is only refused asks for none
            self._cpu_job(leaf, wanted)
            return None
        chip = self._chip(wanted)
        if chip is None:
            self.unfit.setdefault(leaf.ident, self._without_chip(wanted))
            return None
        cards = self._cards(leaf, wanted, chip)
        if cards is None:
            return None
        if cards not in chip.by_cards:
            what = f"{self.presets.file} has no preset '{chip.name}_{cards}' (known: {', '.join(chip.by_cards.values())})"
            self._problem(leaf, f"-m asks for cards_{cards} of {chip.sku}, and {what}")
            return None
        said = f"cards_{cards}" if wanted.counts else f"the most cards of {chip.sku}"
        preset = chip.by_cards[cards]
        self.told.add(leaf, f"{said} → {preset!r} (from -m)", about=preset)
        return preset

    def _cpu_job(self, leaf: Step, wanted: Asking) -> None:
        if wanted.platforms:
            names = " and ".join(sorted(wanted.platforms))
            what = f"-m names {names} but no SKU and no number of cards: a job for the default queue"
            self.told.add(leaf, what, about=what)
        for word in wanted.unknown:
            what = f"pytest gets no -m but `{word}`, known only at run time: a job for the default queue"
            self.told.add(leaf, what, about=what)

    def _chip(self, wanted: Asking) -> Chip | None:
        if self.asked is not None:
            return self.asked if self.asked.sku in wanted.skus else None
        mine = [chip for chip in self.chips if self.platform in {None, chip.platform}]
        return chip_for(wanted.skus, mine, self.vocabulary)

    def _without_chip(self, wanted: Asking) -> str:
        names = ", ".join(sorted(wanted.skus))
        if self.asked is not None:
            return f"{CHIP_VARIABLE}={self.asked.name}, and its -m does not name {self.asked.sku}"
        if not wanted.skus:
            return "its -m names a number of cards but no SKU"
        if wanted.skus <= {*ON_DEMAND}:
            return f"its -m names {names}, which runs on demand only ({CHIP_VARIABLE}={names.lower()})"
        whose = f" {self.platform}" if self.platform else ""
        return f"its -m names {names}, for which {self.presets.file} has no{whose} presets"

    def _cards(self, leaf: Step, wanted: Asking, chip: Chip) -> int | None:
        known = self.vocabulary.cards
        wrong = sorted(wanted.counts - {str(count) for count in known})
        for count in wrong:
            what = f"-m names cards_{count}, which no marker is called (known: cards_{known[0]} to cards_{known[-1]})"
            self._problem(leaf, what)
        if wrong:
            return None
        if wanted.counts:
            return max(map(int, wanted.counts))
        if wanted.refuses_counts:
            return max(chip.by_cards)
        self._problem(
            leaf, f"-m names {', '.join(sorted(wanted.skus))} but no number of cards; add `and cards_1`"
        )
        return None

    def _problem(self, leaf: Step, what: str) -> None:
        self.problems.append(Problem(leaf.where, f"step {leaf.label or leaf.ident!r}: {what}"))
