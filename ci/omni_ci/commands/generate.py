"""`omni-ci generate`: the Buildkite pipeline on standard output, its reasons on standard error."""

from __future__ import annotations

from omni_ci.commands.making import KnownKeys, made_ready
from omni_ci.commands.selecting import Selecting
from omni_ci.report import counted, nothing_selected, say, write_document


def generate(
    file: str,
    /,
    *,
    known_key: KnownKeys = None,
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
    made, generated = made_ready(file, known_key=known_key, selecting=selecting or Selecting())
    if generated.text is None:
        say(nothing_selected(made.selection))
        return 0
    say(counted(made.selection))
    write_document(generated.text)
    return 0
