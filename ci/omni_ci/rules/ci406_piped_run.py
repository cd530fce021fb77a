from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.statuses import Options
from omni_ci.shell.runs import Command, shell_arguments

# Shells with options of their own; of these, those that begin with the ones around them.
_SHELLS = frozenset(["subshell", "$()", "bash -c", "bash <<"])
_INHERIT = frozenset(["subshell", "$()"])


class PipedTestsFail(Rule):
    """A test run that is piped into another program stands under `set -o pipefail`.

    `pytest … | tee log` has the status of `tee`, which is 0. Put `set -o pipefail` before it. A preset with a
    `runner` has it set.
    """

    code = "CI406"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            tests = {run.words for run in job.runs if run.words}
            for command, is_safe in _with_pipefail(job.script.commands, at_first=job.runner is not None):
                if command.after in {"|", "|&"} and command.words in tests and not is_safe:
                    yield job.found(
                        " ".join(command.words),
                        "pipes its tests, and without `set -o pipefail` their status is lost",
                    )


def _with_pipefail(commands: Sequence[Command], *, at_first: bool) -> Iterator[tuple[Command, bool]]:
    """Yield each command with whether pipefail is set there: by `set` before it, or by the shell that it stands in."""
    told: dict[tuple[str, ...], bool] = {(): at_first}
    for command in commands:
        shells = [depth for depth, what in enumerate(command.inside, 1) if what in _SHELLS]
        scopes = [(), *(command.inside[:depth] for depth in shells)]
        told = {
            scope: is_set for scope, is_set in told.items() if scope in scopes or _is_ahead(scope, command)
        }
        for outer, scope in pairwise(scopes):
            told.setdefault(scope, told[outer] if scope[-1] in _INHERIT else False)
        options = Options.of(command.words).pipefail
        if command.name == "set" and options is not None:
            told[scopes[-1]] = options
        elif shell_arguments(command.words) is not None:
            told[(*command.inside, "bash -c")] = bool(options)
        yield command, told[scopes[-1]]


def _is_ahead(scope: tuple[str, ...], command: Command) -> bool:
    """Return whether *scope* may still come: the shell that *command*, or what it substitutes, stands before."""
    return (
        scope[-1:] == ("bash -c",)
        and command.inside[: len(scope) - 1] == scope[:-1]
        and "$()" in command.inside
    )
