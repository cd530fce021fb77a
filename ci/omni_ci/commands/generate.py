"""`omni-ci generate`: the Buildkite pipeline on standard output, its reasons on standard error."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from omni_ci.commands.selecting import Selecting, named
from omni_ci.generating import generate_one
from omni_ci.report import counted, nothing_selected, say, write_document


def generate(
    file: str,
    /,
    *,
    known_key: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None,
    selecting: Selecting | None = None,
) -> int:
    """Write the Buildkite pipeline to standard output.

    Parameters
    ----------
    file
        The pipeline file.
    known_key
        Keys of steps that live only in Buildkite, which `depends_on` may name.
    selecting
        What to select by.

    """
    known_keys = named("--known-key", known_key, "the key of a step")
    made = (selecting or Selecting()).plan((file,))
    generated = generate_one(made, known_keys=known_keys)
    for notice in (*made.notices, *generated.notices):
        say(f"note: {notice}")
    if generated.text is None:
        say(nothing_selected(made.selection))
        return 0
    say(counted(made.selection))
    write_document(generated.text)
    return 0
