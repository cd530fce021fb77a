from __future__ import annotations

import re
from collections.abc import Iterator

from omni_ci.rules.context import Context
from omni_ci.rules.placements import expression_of
from omni_ci.rules.rule import Found, Rule
from omni_hardware.expression import unknown_names
from omni_hardware.own_markers import own_markers


class MarkersExist(Rule):
    """A marker in a `-m` exists.

    A misspelled name selects nothing, or under a `not` leaves nothing out; with the plugin pytest ends with 4. A
    marker exists where the vocabulary, pytest's `markers` setting or any Python file of the repository names it.
    """

    code = "CI305"

    def check(self, context: Context) -> Iterator[Found]:
        known = dict.fromkeys([*context.vocabulary.words(), *own_markers(context.read)])
        for job in context.jobs:
            told: set[str] = set()
            for run in job.runs:
                expression = expression_of(run)
                # tests from elsewhere have marks of their own
                if expression is None or not context.test_paths.of_run(run).files:
                    continue
                new = [name for name, _ in expression.names if name not in known and _is_used(name, context)]
                known |= dict.fromkeys(new)
                for message in unknown_names(expression, known):
                    if message not in told:
                        told.add(message)
                        yield job.found(message, f"-m {message}")


def _is_used(name: str, context: Context) -> bool:
    """Return whether a Python file has *name* as a mark, or as the start of a text that may register it."""
    used = re.compile(rf"""\bmark\.{re.escape(name)}\b|["']{re.escape(name)}\b""")
    return any(used.search(context.read(path) or "") for path in context.names if path.endswith(".py"))
