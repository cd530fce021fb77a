"""What a check found, and the rendered steps it looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def commands(self) -> str:
        """Return the step's commands as one text."""
        found = [self.step.get(name) or [] for name in ("command", "commands")]
        return "\n".join(
            text if isinstance(text, str) else "\n".join(map(str, text)) for text in found
        ).strip()

    def finding(self, code: str, message: str, *, level: Level = Level.ERROR) -> Finding:
        return Finding(code=code, where=self.where, message=f"step {self.title}: {message}", level=level)


def placed(document: Mapping[str, Any], origins: Mapping[tuple[int, ...], str]) -> Iterator[Placed]:
    """Yield every step of *document*, groups before their children; *origins* maps a path to "file:line"."""
    for index, step in enumerate(document.get("steps") or []):
        yield _at(step, (index,), origins)
        children = step.get("steps") if isinstance(step, dict) else None
        for inner, child in enumerate(children or []):
            yield _at(child, (index, inner), origins)


def _at(step: Any, path: tuple[int, ...], origins: Mapping[tuple[int, ...], str]) -> Placed:
    spelled = "steps[" + "].steps[".join(map(str, path)) + "]"
    return Placed(step=step, path=path, where=origins.get(path, spelled))
