from __future__ import annotations

from collections.abc import Iterator, Sequence

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule
from omni_ci.rules.statuses import Options
from omni_ci.shell.runs import Command, parse

_EXITS = frozenset(["EXIT", "0", "SIGEXIT"])
_PARTS = frozenset(["then", "do", "case", "function", "subshell", "$()"])


class StatusesArriveAtTheEnd(Rule):
    """The status of a test run arrives at the end of the step.

    `exit 0` after the tests or in a trap on EXIT, or `set +e` before them without a line that keeps `$?`, makes the
    step green whatever they said. Keep the status (`rc=$?`, in YAML `rc=$$?`) and end with `exit "$rc"`.
    """

    code = "CI407"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            outer = [one for one in job.script.commands if not one.inside]
            tests = {run.words for run in job.runs if run.words and not run.inside}
            for script in _at_the_end(job.script.commands) if job.runs else ():
                yield job.found(
                    script, f"loses the status of its tests: `trap '{script}' EXIT` ends it with 0"
                )
            for words, how in _lost(outer, tests, is_one_text=job.is_one_text):
                yield job.found(" ".join(words), f"loses the status of its tests: {how}")


def _lost(
    commands: Sequence[Command], tests: set[tuple[str, ...]], *, is_one_text: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each test run whose status nothing keeps, and how it is lost."""
    tolerates = is_one_text
    for index, command in enumerate(commands):
        if command.name == "set" and (stops := Options.of(command.words).errexit) is not None:
            tolerates = not stops
        if command.words not in tests or command.after in {"||", "&&", "|", "&"}:
            continue
        rest = commands[index + 1 :]
        if any(
            "$?" in text for one in rest[:1] for text in (*one.words, *(value for _, value in one.assigns))
        ):
            continue
        if tolerates and any(one.words == ("exit", "0") for one in rest):
            yield command.words, "`exit 0` follows"
        elif tolerates and not is_one_text and rest:
            yield (
                command.words,
                f"after `set +e`, `{' '.join(rest[0].words) or 'the next line'}` takes its place",
            )


def _at_the_end(commands: Sequence[Command]) -> Iterator[str]:
    """Yield the scripts of traps on EXIT that end the shell with 0."""
    for command in commands:
        if command.name == "trap" and _EXITS.intersection(command.words[2:]):
            script = command.words[1]
            if any(
                one.words == ("exit", "0") and not _PARTS.intersection(one.inside)
                for one in parse(script).commands
            ):
                yield script
