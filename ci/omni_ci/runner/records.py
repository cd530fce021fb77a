"""What the shell writes aside about each item, and the text that makes it do so. Pure.

A record is five fields, each ended by a NUL: kind, item, status, time, text.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path

_FIELDS = 5
PRELUDE = "__omni_prelude"


class Kind(StrEnum):
    """What a record is about."""

    BEGIN = "begin"  # an item starts; its text is the folder
    MOVED = "moved"  # an item changed the folder
    FAILED = "failed"  # a command of an item failed and nothing excused it; its text is the command
    FATAL = "fatal"  # a `cd` or set-up failed, and the shell ends
    END = "end"  # an item is done; its text is the folder

    @property
    def names_folder(self) -> bool:
        return self in {Kind.BEGIN, Kind.MOVED, Kind.END}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of the shell's diary; *time* is in seconds, from any zero."""

    kind: Kind
    item: int
    status: int
    time: float
    text: str


def parse(written: bytes) -> tuple[Record, ...]:
    """Return the complete records in *written*; one that was cut short by the shell's death is left out."""
    return tuple(_records(written.decode("utf-8", "replace").split("\0")[:-1]))


def prelude() -> str:
    """Return what the variable PRELUDE must hold in the environment of a `script`."""
    return resources.files(__package__).joinpath("prelude.sh").read_text("utf-8")


def script(commands: Sequence[str], titles: Sequence[str], *, aside: Path) -> str:
    """Return the bash text that runs *commands* in order, each its own unit, and writes records to *aside*.

    The prelude comes from the environment, and nothing adds a line, so that the lines bash names are the commands'.
    """
    stanzas = (
        # errors of the bookkeeping, and its lines under `set -x`, are nobody's business
        f"{{ __omni_begin {number} {shlex.quote(title)}; }} 2>/dev/null; "
        # no loop and no function around it: `break` and `return` find nothing, `declare` is global
        f"eval -- {shlex.quote(command)}; "
        '{ __omni_end "$?"; } 2>/dev/null\n'
        for number, (command, title) in enumerate(zip(commands, titles, strict=True), 1)
    )
    start = f'__omni_records={shlex.quote(str(aside))}; eval -- "${PRELUDE}"; unset -v {PRELUDE}; '
    return f'{start}{"".join(stanzas)}builtin exit "$__omni_failed"\n'


def _records(fields: list[str]) -> Iterator[Record]:
    for at in range(0, len(fields) - _FIELDS + 1, _FIELDS):
        kind, item, status, time, text = fields[at : at + _FIELDS]
        with contextlib.suppress(ValueError):  # no record of ours
            yield Record(kind=Kind(kind), item=int(item), status=int(status), time=_seconds(time), text=text)


def _seconds(text: str) -> float:
    """Return a time; the decimal point is the locale's, and a command may have unset both clocks."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return 0.0
