from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from omni_ci.rules.context import Context
from omni_ci.rules.forgiveness import asked_for
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.statuses import Options
from omni_ci.shell.runs import Command, Script, parse

_EXITS = frozenset(["EXIT", "0", "SIGEXIT"])
_ERRORS = frozenset(["ERR", "SIGERR"])
_GROUPS = frozenset(["{ }", "subshell"])
_PARTS = frozenset(["then", "do", "case", "function", "subshell", "$()"])


class StatusesArriveAtTheEnd(Rule):
    """The status of a test run arrives at the end of the step.

    `exit 0` after the tests or in a trap on EXIT or ERR, or `set +e` before them without a line that keeps `$?`, makes
    the step green whatever they said. Keep the status (`rc=$?`, in YAML `rc=$$?`) and end with `exit "$rc"`.
    """

    code = "CI407"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            outer = [one for one in job.script.commands if _GROUPS.issuperset(one.inside)]
            tests = {run.words for run in job.runs if run.words and _GROUPS.issuperset(run.inside)}
            signals = _EXITS if job.runner else _EXITS | _ERRORS
            for script, signal in _at_the_end(job.script, signals) if job.runs else ():
                yield job.found(
                    script, f"loses the status of its tests: `trap '{script}' {signal}` ends it with 0"
                )
            for words, how in _lost(outer, tests, is_one_text=job.is_one_text):
                yield job.found(" ".join(words), f"loses the status of its tests: {how}")


def _lost(
    commands: Sequence[Command], tests: set[tuple[str, ...]], *, is_one_text: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each test run whose status nothing keeps, and how it is lost."""
    told: dict[tuple[int, ...], bool] = {(): is_one_text}
    for index, command in enumerate(commands):
        shells = _shells(command)
        for outer, shell in pairwise(shells):
            told.setdefault(shell, told[outer])
        if command.name == "set" and (stops := Options.of(command.words).errexit) is not None:
            told[shells[-1]] = not stops
        if command.words not in tests or command.after in {"||", "&&", "|", "&"}:
            continue
        rest = commands[index + 1 :]
        if rest and _is_kept(rest):
            continue
        # what is the last of its subshell has the status of that
        ending = next((shell for shell in reversed(shells) if any(shell in _shells(one) for one in rest)), ())
        tolerates = told[ending]
        if tolerates and any(one.words == ("exit", "0") for one in rest):
            yield command.words, "`exit 0` follows"
        elif tolerates and not is_one_text and rest:
            yield (
                command.words,
                f"after `set +e`, `{' '.join(rest[0].words) or 'the next line'}` takes its place",
            )


def _shells(command: Command) -> list[tuple[int, ...]]:
    """Return the shells that *command* stands in, the outermost first: what is set in one does not leave it."""
    depths = (depth for depth, what in enumerate(command.inside, 1) if what == "subshell")
    return [(), *(command.within[:depth] for depth in depths)]


def _is_kept(rest: Sequence[Command]) -> bool:
    """Return whether the first of *rest* asks for the status before it, or keeps it for one that does."""
    first = rest[0]
    kept = [name for name, value in first.assigns if "$?" in value]
    return any("$?" in word for word in first.words) or any(asked_for(name, rest[1:]) for name in kept)


def _at_the_end(script: Script, signals: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the scripts of traps on *signals* that end the shell with 0, and the signal."""
    for command in script.commands:
        caught = [word for word in command.words[2:] if word in signals]
        if command.name == "trap" and caught:
            handler = parse(command.words[1]).commands
            called = {
                number
                for number, name in script.functions.items()
                if (name,) in {one.words for one in handler}
            }
            bodies = [one for one in script.commands if one.within and one.within[0] in called]
            inner = [one for one in bodies if one.inside[1:] in {(), ("{ }",)}]
            if any(
                one.words == ("exit", "0")
                for one in (*(one for one in handler if not _PARTS.intersection(one.inside)), *inner)
            ):
                yield command.words[1], caught[0]
