"""Which exit statuses a list of commands loses."""

from __future__ import annotations

from collections.abc import Sequence

from omni_ci.shell import Command

# A failure of these changes nothing that a test would notice.
_HARMLESS = frozenset(
    ["", ":", "true", "echo", "printf", "export", "unset", "set", "shopt", "ulimit", "umask", "date", "env",
     "nvidia-smi", "rocm-smi", "npu-smi", "xpu-smi", "ls", "pwd", "trap", "wait", "exit"]
)  # fmt: skip
_SEQUENCE = ("", ";")


def first_lost(commands: Sequence[Command]) -> tuple[str, ...] | None:
    """Return the first of *commands* whose failure the following ones hide, None where `set -e` stands before it."""
    for index, command in enumerate(commands):
        if command.name == "set" and stops_at_failure(command.words):
            return None
        is_last = index == len(commands) - 1
        if not is_last and command.after in _SEQUENCE and command.name not in _HARMLESS:
            following = commands[index + 1]
            if not _uses_status(following):
                return command.words
    return None


def stops_at_failure(words: Sequence[str]) -> bool:
    """Return whether *words* switch `-e` on: `set -eu`, `bash -e -c`, `set -o errexit`."""
    options = [word for word in words[1:] if word.startswith("-") and not word.startswith("--")]
    return any("e" in option for option in options) or "errexit" in words


def _uses_status(command: Command) -> bool:
    """Return whether *command* keeps or asks for the status before it: `rc=$?`."""
    return any("$?" in text for text in (*command.words, *(value for _, value in command.assigns)))
