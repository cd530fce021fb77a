"""`omni-ci plan`: every step, run or skip, and why. Changes nothing."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from omni_ci.commands.selecting import Selecting
from omni_ci.report import print_table, say, write_document


def plan(
    *files: str,
    output: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table",
    selecting: Selecting | None = None,
) -> int:
    """Show every step, run or skip, and why.

    Parameters
    ----------
    files
        Pipeline files; without any, every .buildkite/*/test-*.yml of the repository.
    output
        A table for people, or selection.json.
    selecting
        What to select by.

    """
    made = (selecting or Selecting()).plan(files)
    for notice in made.notices:
        say(f"note: {notice}")
    if output == "json":
        write_document(made.selection.to_json())
    else:
        print_table(made.selection, sys.stdout)
    return 0
