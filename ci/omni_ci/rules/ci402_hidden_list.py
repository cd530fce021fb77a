from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.statuses import Options, first_lost
from omni_ci.shell.runs import Command, parse, shell_arguments


class NestedListsFail(Rule):
    """Commands in a `bash -c` or a subshell do not hide a failure behind the next command.

    `bash -c 'a; b'` has the status of b alone, since a new shell starts without `set -e`; so has `(a; b)` under a
    runner of commands. Put `set -e` first in it, join the commands with `&&`, or write them as items of their own.
    """

    code = "CI402"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            for what, commands in (*_inline(job), *_subshells(job)):
                if lost := first_lost(commands):
                    yield job.found(
                        " ".join(lost),
                        f"{what} hides a failure of `{_short(lost)}`: put `set -e` first in it",
                    )


def _inline(job: Job) -> Iterator[tuple[str, Sequence[Command]]]:
    for command in job.script.commands:
        inline = shell_arguments(command.words)
        if inline and not Options.of(command.words[: inline.at]).errexit:
            commands = [one for one in parse(inline.script).commands if not one.inside]
            yield f"`{command.name if command.name != 'timeout' else 'bash'} -c`", commands


def _subshells(job: Job) -> Iterator[tuple[str, Sequence[Command]]]:
    """Yield the commands of each `( … )`; the agent's own shell hands its -e on, a runner does not."""
    if job.runner is None:
        return
    for inside, commands in groupby(job.script.commands, key=lambda one: one.inside):
        if inside[-1:] == ("subshell",):
            yield "`( … )`", list(commands)


def _short(words: Sequence[str]) -> str:
    text = " ".join(words)
    return text if len(text) <= 60 else f"{text[:57]}…"
