"""What the parser holds of a script before it is a command: the one that is being read, and what stands open around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from omni_ci.shell.tokens import Token


@dataclass(slots=True)
class Draft:
    """The command that is being read."""

    before: str = ""
    line: int = 0
    is_inverted: bool = False
    words: list[Token] = field(default_factory=list)
    assigns: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[tuple[str, Token]] = field(default_factory=list)
    scripts: list[tuple[Token, ...]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.words or self.assigns or self.redirects)


@dataclass(frozen=True, slots=True)
class Opened:
    """What is open: its kind, a number that no other has, the folder outside of it, whether `!` stands before it."""

    what: str
    number: int
    folder: str
    is_inverted: bool
