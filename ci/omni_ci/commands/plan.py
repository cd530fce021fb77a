"""`omni-ci plan`: every step, run or skip, and why. Changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from cyclopts import Parameter

from omni_ci.commands.selecting import Selecting
from omni_ci.planning import Plan
from omni_ci.showing.report import print_table, say, write_document

Format = Literal["table", "json", "markdown", "html"]


def plan(
    *files: str,
    output: Annotated[Format, Parameter(name="--format")] = "table",
    selecting: Selecting | None = None,
) -> int:
    """Show every step, run or skip, and why.

    Parameters
    ----------
    files
        Pipeline files; without any, every .buildkite/*/test-*.yml of the repository.
    output
        A table for people, selection.json, Markdown for a comment, or a page for a browser.
    selecting
        What to select by.

    """
    made = (selecting or Selecting()).plan(files)
    for notice in made.notices:
        say(f"note: {notice}")
    _FORMATS[output](made)
    return 0


def _table(made: Plan) -> None:
    print_table(made.selection, sys.stdout)


def _json(made: Plan) -> None:
    write_document(made.selection.to_json())


def _markdown(made: Plan) -> None:
    from omni_ci.showing.markdown import markdown

    write_document(markdown(made.selection, notices=made.notices))


def _html(made: Plan) -> None:
    from omni_ci.showing.page import page

    write_document(page(made.selection, notices=made.notices))


_FORMATS: Mapping[Format, Callable[[Plan], None]] = {
    "table": _table,
    "json": _json,
    "markdown": _markdown,
    "html": _html,
}
