from __future__ import annotations

import re
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.rule import Found, Rule

_BUILTINS = ("export", "declare", "local", "readonly", "typeset")
_SUBSTITUTED = re.compile(r"(\w+)=[^ ]*(?:\$\((?!\()|`)", re.DOTALL)


class SubstitutionsMayFail(Rule):
    """A variable that a command fills is assigned first and exported afterwards.

    `export X=$(command)` has the status of `export`, which is 0: the command fails, X is empty, and the tests run
    with it, under `set -e` too. Write `X=$(command)` and then `export X`.
    """

    code = "CI401"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            for command in job.script.commands:
                for word in command.words[1:] if command.name in _BUILTINS else ():
                    if found := _SUBSTITUTED.match(word):
                        name = found[1]
                        message = f"`{command.name} {name}=$(…)` hides a failure: write `{name}=$(…)`, then `export {name}`"
                        yield job.found(name, message)
