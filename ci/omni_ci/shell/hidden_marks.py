"""Marks that reach pytest by another way than its own words: variables, PYTEST_ADDOPTS, files, programs around it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from omni_ci.shell.commands import TAKE_A_SCRIPT, Command, Script, shell_arguments
from omni_ci.shell.parser import parse
from omni_ci.shell.programs import only_names
from omni_ci.shell.runs import run_of

ADDOPTS = "PYTEST_ADDOPTS"
_CARDS = re.compile(r"\bcards_\d")
_MARKS = re.compile(r"(?:^|\s)-\w*m(?:\W|$)")
_MARKS_OF_VARIABLE = re.compile(r"(?:^|\s)-\w*m[\s=]*[\"']?\$")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)[^}]*\}|(?P<name>[A-Za-z_]\w*))", re.ASCII)
_SETS = frozenset(["export", "declare", "local", "readonly", "typeset"])
_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """problems: where marks that name devices are not seen; unknown: words that may hold marks, for all one knows."""

    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def hidden_marks(script: str, environment: Mapping[str, str], skus: Collection[str]) -> Hidden:
    """Return what *script*, in which `$$` is turned into `$` already, hides of its marks; never raises.

    *environment* holds the variables that its step sets, *skus* the marks that name a device.
    """
    everything = "\n".join([script, *environment.values()])
    names_devices = _CARDS.search(everything) or not set(re.findall(r"\w+", everything)).isdisjoint(skus)
    if not names_devices and ("pytest" not in script or not ("$" in script or "@" in script)):
        return Hidden()
    reading = _Reading(script=parse(script), environment=environment, skus=skus)
    for command in reading.script.commands:
        reading.read(command)
    return Hidden(
        problems=tuple(dict.fromkeys(reading.problems)), unknown=tuple(dict.fromkeys(reading.unknown))
    )


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One script being read, command by command; *values* are those that its variables may have had until then."""

    script: Script
    environment: Mapping[str, str]
    skus: Collection[str]
    values: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values.update({name: [value] for name, value in self.environment.items()})

    def read(self, command: Command) -> None:
        run = run_of(command)
        if run is not None and run.problem is None:
            self.problems += self._beside(has_marks=run.marks is not None)
            for word in run.paths:
                self._word(word, is_said=run.marks is not None)
        elif run is None and not only_names(command.words):
            self.problems += self._of_another(command)
        for name, value in _assigned(command):
            self.values.setdefault(name, []).append(value)

    def _beside(self, *, has_marks: bool) -> Iterator[str]:
        """Yield the marks that come by the variable which pytest itself reads; its own `-m` wins over them."""
        for value in () if has_marks else self.values.get(ADDOPTS, ()):
            if self._holds_marks(value):
                yield f"{ADDOPTS} gives pytest `{_short(value)}` beside its own words"

    def _word(self, word: str, *, is_said: bool) -> None:
        """Judge a word that may be any number of arguments at run time."""
        found = _VARIABLE.fullmatch(word)
        if found is None:
            if word.startswith(("@", "$(", "`")) and not is_said:
                self.unknown.append(word)
            return
        name = found["braced"] or found["name"]
        values = self.values.get(name, [])
        for value in values:
            if self._holds_marks(value):
                self.problems.append(f"{word} gives pytest `{_short(value)}` at run time")
        known = name in self.script.loops or (values and not any("$" in one or "`" in one for one in values))
        if not (known or is_said):
            self.unknown.append(word)

    def _of_another(self, command: Command) -> Iterator[str]:
        """Yield what marks a program gets that is not seen to be pytest."""
        if not command.words or command.name in TAKE_A_SCRIPT or shell_arguments(command.words) is not None:
            return  # its script is read as commands of its own
        if found := _VARIABLE.fullmatch(command.words[0]):
            for value in self.values.get(found["braced"] or found["name"], ()):
                if self._holds_marks(value):
                    yield f"{command.words[0]} runs `{_short(value)}` at run time"
        for before, word in zip(("", *command.words), command.words, strict=False):
            if _CARDS.search(word) or (_MARKS.fullmatch(before) and self._names_sku(word)):
                yield f"`{_short(' '.join(command.words))}` is not seen to be pytest, and names devices"
                return

    def _holds_marks(self, value: str) -> bool:
        return bool(
            _CARDS.search(value)
            or (_MARKS.search(value) and self._names_sku(value))
            or _MARKS_OF_VARIABLE.search(value)
        )

    def _names_sku(self, text: str) -> bool:
        return not set(re.findall(r"\w+", text)).isdisjoint(self.skus)


def _assigned(command: Command) -> Iterator[tuple[str, str]]:
    """Yield the variables that *command* leaves set; one before a program is that program's."""
    if not command.words:
        yield from command.assigns
    elif command.name in _SETS:
        for word in command.words[1:]:
            name, is_given, value = word.partition("=")
            if is_given:
                yield name, value


def _short(text: str) -> str:
    bare = " ".join(text.split())
    return bare if len(bare) <= _LONGEST else f"{bare[:_LONGEST]}…"
