"""What a check found, and the rendered steps it looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from omni_ci.hardware.command_env import commands_as_written
from omni_ci.interpolation import at_run_time
from omni_ci.shell.runs import Script, parse


class Level(StrEnum):
    ERROR = "error"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence about one place. *where* is "file:line" of the source where that is known."""

    code: str
    where: str
    message: str
    level: Level = Level.ERROR

    def __str__(self) -> str:
        return f"{self.where}: {self.code} {self.message}"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A rendered step with the place it came from; *path* are its indices, (2,) or (2, 0) inside a group."""

    step: Any
    path: tuple[int, ...]
    where: str

    @property
    def title(self) -> str:
        """Return how people know the step: its label, group, key or kind."""
        if not isinstance(self.step, dict):
            return repr(self.step)
        names = ("label", "name", "group", "key", "block", "wait", "input", "trigger")
        found = next((self.step[name] for name in names if self.step.get(name)), "unnamed step")
        return repr(str(found))

    @property
    def is_group(self) -> bool:
        return isinstance(self.step, dict) and "group" in self.step

    @property
    def runs_commands(self) -> bool:
        return isinstance(self.step, dict) and not self.step.keys() & {
            "group",
            "wait",
            "waiter",
            "block",
            "input",
            "trigger",
        }

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """What is written at this step: without the steps of a group, its commands in one text as Buildkite joins them."""
        if not isinstance(self.step, Mapping):
            return {}
        own = {key: value for key, value in self.step.items() if not (self.is_group and key == "steps")}
        for name in ("command", "commands"):
            if isinstance(own.get(name), list):
                own[name] = "\n".join(map(str, own[name]))
        return own

    @cached_property
    def commands(self) -> str:
        """The step's commands as one text, as a file writes them, also where they travel in its env."""
        return "\n".join(commands_as_written(self.step)) if isinstance(self.step, Mapping) else ""

    @cached_property
    def script(self) -> str:
        """The commands as the job's shell gets them, but for the variables that upload replaces."""
        return at_run_time(self.commands)

    @property
    def shell(self) -> Script:
        """The commands, read."""
        return parse(self.script)

    def finding(self, code: str, message: str, *, level: Level = Level.ERROR) -> Finding:
        return Finding(code=code, where=self.where, message=f"step {self.title}: {message}", level=level)


def placed(document: Mapping[str, Any], origins: Mapping[tuple[int, ...], str]) -> Iterator[Placed]:
    """Yield every step of *document*, groups before their children; *origins* maps a path to "file:line"."""
    for index, step in enumerate(document.get("steps") or []):
        yield _at(step, (index,), origins)
        children = step.get("steps") if isinstance(step, dict) else None
        for inner, child in enumerate(children or []):
            yield _at(child, (index, inner), origins)


def document_place(origins: Mapping[tuple[int, ...], str]) -> str:
    """Return the place of what stands for the whole document: origins' own, else the file of its steps."""
    if () in origins:
        return origins[()]
    first = next(iter(origins.values()), "pipeline")
    file, _, line = first.rpartition(":")
    return file if line.isdecimal() else first


def strings_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in *value*, keys included, each with the place it stands at, like "env.HF_HOME"."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{path}.{key}".removeprefix(".")
            if isinstance(key, str):
                yield inner, key
            yield from strings_of(item, inner)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_of(item, path)


def _at(step: Any, path: tuple[int, ...], origins: Mapping[tuple[int, ...], str]) -> Placed:
    spelled = "steps[" + "].steps[".join(map(str, path)) + "]"
    return Placed(step=step, path=path, where=origins.get(path, spelled))
