"""Which exit statuses a list of commands loses, and what `set` and a shell's own options say about that."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from omni_ci.shell.commands import SHELLS
from omni_ci.shell.runs import Command

# A failure of these changes nothing that a test would notice.
_HARMLESS = frozenset(
    ["", ":", "true", "echo", "printf", "export", "unset", "set", "shopt", "ulimit", "umask", "date", "env",
     "nvidia-smi", "rocm-smi", "npu-smi", "xpu-smi", "ls", "pwd", "trap", "wait", "exit"]
)  # fmt: skip
_SEQUENCE = ("", ";")
_LETTERS: Mapping[str, str] = MappingProxyType({"e": "errexit"})


@dataclass(frozen=True, slots=True)
class Options:
    """What a shell was told: the options switched on and off, by their long names."""

    switched: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str]) -> Options:
        """Read *words*: `set +ex`, `bash -euo pipefail -c …`, `timeout 9 bash -o errexit`; other commands say nothing."""
        names = [posixpath.basename(word) for word in words]
        at = next((index for index, name in enumerate(names) if name == "set" or name in SHELLS), None)
        is_set = at == 0 and names[0] == "set"
        return (
            cls() if at is None or (names[at] == "set" and not is_set) else cls(dict(_read(words[at + 1 :])))
        )

    @property
    def errexit(self) -> bool | None:
        """Whether the first failure ends the shell; None where nothing is said."""
        return self.switched.get("errexit")

    @property
    def pipefail(self) -> bool | None:
        """Whether a pipe has the status of whatever fails in it; None where nothing is said."""
        return self.switched.get("pipefail")


def _read(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    rest = iter(words)
    for word in rest:
        if word in {"-", "--"} or word[:1] not in {"-", "+"}:
            return
        if word.startswith("--"):
            continue
        for letter in word[1:]:
            name = next(rest, "") if letter == "o" else _LETTERS.get(letter, letter)
            yield name, word[0] == "-"


def first_lost(commands: Sequence[Command]) -> tuple[str, ...] | None:
    """Return the first of *commands* whose failure the following ones hide, None where `set -e` stands before it."""
    stops = False
    for index, command in enumerate(commands):
        if command.name == "set" and (told := Options.of(command.words).errexit) is not None:
            stops = told
        is_last = index == len(commands) - 1
        if not stops and not is_last and command.after in _SEQUENCE and command.name not in _HARMLESS:
            following = commands[index + 1]
            if not _uses_status(following):
                return command.words
    return None


def _uses_status(command: Command) -> bool:
    """Return whether *command* keeps or asks for the status before it: `rc=$?`."""
    return any("$?" in text for text in (*command.words, *(value for _, value in command.assigns)))
