"""What a job was given to run, and from where."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omni_ci.errors import GuardError

ITEMS = "OMNI_COMMANDS"
UNIT = "TEST_COMMANDS"
# A command that upload had to look into travels in a variable of its own.
_HELD = re.compile(r'eval "\$(OMNI_COMMAND_\d+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The items of a job in order, where they come from, and what should be said about that."""

    commands: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()


def given_by(environ: Mapping[str, str], words: Sequence[str] = ()) -> Given:
    """Return the items: *words* from the command line, else OMNI_COMMANDS, else TEST_COMMANDS.

    One word is a shell command, several are one command with its arguments. Raises GuardError where there is nothing
    to run.
    """
    if words:
        ignored = [name for name in (ITEMS, UNIT) if environ.get(name)]
        notes = (
            (f"{' and '.join(ignored)} is not used: the command line says what to run",) if ignored else ()
        )
        command = words[0] if len(words) == 1 else shlex.join(words)
        return _required(Given(commands=(command,), source="the command line", notes=notes))
    if ITEMS in environ:
        notes = (f"{UNIT} is not used: {ITEMS} holds the commands one by one",) if environ.get(UNIT) else ()
        items = tuple(_held(item, environ) for item in parse_items(environ[ITEMS]))
        return _required(Given(commands=items, source=ITEMS, notes=notes))
    if environ.get(UNIT):
        note = f"{UNIT} runs as one unit, so that there is no status for each command; {ITEMS} would give one"
        return _required(Given(commands=(environ[UNIT],), source=UNIT, notes=(note,)))
    raise GuardError(
        f"nothing to run: neither {ITEMS} nor {UNIT} is set, and no command follows `--`, so no test was run"
    )


def parse_items(text: str, *, name: str = ITEMS) -> tuple[str, ...]:
    """Return the texts of a JSON array. Raises GuardError for anything else."""
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        what = (
            f"{error.msg} at character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else "too deep"
        )
        raise GuardError(f'{name} is not JSON: {what}; write ["pytest …", "…"]') from None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise GuardError(f'{name} is not a JSON array of strings; write ["pytest …", "…"]')
    if "\0" in "".join(found):
        raise GuardError(f"{name} holds a NUL character, which no command can")
    try:
        os.fsencode("".join(found))
    except UnicodeEncodeError as error:
        wrong = ascii(error.object[error.start])
        raise GuardError(f"{name} holds {wrong}, which no command can ({error.encoding})") from None
    return tuple(found)


def _held(item: str, environ: Mapping[str, str]) -> str:
    """Return the command that *item* stands for, where a variable holds it (it may need no quoting for JSON there)."""
    found = _HELD.fullmatch(item)
    if found is None:
        return item
    if found[1] not in environ:
        raise GuardError(f"{ITEMS} names {found[1]}, which is not set, so no test was run")
    return environ[found[1]]


def _required(given: Given) -> Given:
    if not any(_does_something(command) for command in given.commands):
        raise GuardError(f"{given.source} holds no command, so no test was run")
    return given


def _does_something(command: str) -> bool:
    lines = (line.strip() for line in command.splitlines())
    return any(line and not line.startswith("#") for line in lines)
