"""What a command line asks of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from omni_ci.configuration import ConfigKind
from omni_ci.selection.judging import Mode
from omni_ci.selection.only import FLAG, VARIABLE
from omni_hardware.errors import InputError

Side = Literal["base", "head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks for; empty fields mean "work it out".

    *only* are step keys, given as *only_by* says; *stored* is the path of a selection.json to replay. *config_from*
    None: the merge base for a pull request from a fork, else the head.
    """

    files: Sequence[str] = ()
    base: str | None = None
    head: str | None = None
    changed: Sequence[str] = ()
    mode: Mode = Mode.DIFF
    labels: Sequence[str] = ()
    only: Sequence[str] = ()
    only_by: str = FLAG
    stored: str | None = None
    config_from: Side | None = None
    durations: str | None = None
    given: Mapping[ConfigKind, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ways = {
            "--base/--head": self.base or self.head,
            "--changed": self.changed,
            "--all": self.mode is Mode.ALL,
            "--e2e": self.mode is Mode.E2E,
            self.only_by: self.only,
            "--from": self.stored,
        }
        used = [way for way, is_used in ways.items() if is_used]
        if self.only and self.only_by == VARIABLE and not self.stored:
            return  # a rerun of single steps repeats the command of the whole build
        if len(used) > 1:
            raise InputError(f"{' and '.join(used)} exclude each other; each says what to select by itself")
