"""`omni-ci generate`: the Buildkite pipeline on standard output, its reasons on standard error."""

from __future__ import annotations

from omni_ci.commands.arguments import KnownKeys, Whole
from omni_ci.commands.making import made_ready
from omni_ci.commands.selecting import Selecting
from omni_ci.showing.report import nothing_selected, say, summary, write_document
from omni_hardware.errors import InputError


def generate(
    file: str,
    /,
    *more: str,
    part: Whole | None = None,
    known_key: KnownKeys = None,
    selecting: Selecting | None = None,
) -> int:
    """Write the Buildkite pipeline to standard output.

    Parameters
    ----------
    file
        The pipeline file.
    more
        Further files of the same build, to go into the same upload: a job that two of them have runs once.
    part
        Which of several uploads, where the pipeline has more jobs than Buildkite takes at once.
    known_key
        Keys of steps that live only in Buildkite, which `depends_on` may name.
    selecting
        What to select by.

    """
    made, generated = made_ready(file, *more, known_key=known_key, selecting=selecting or Selecting())
    count = len(generated.parts)
    if part is not None and not 1 <= part <= count:
        raise InputError(f"--part {part}: there {'is 1 part' if count == 1 else f'are {count} parts'}")
    if not generated.parts:
        say(nothing_selected(made.selection))
        return 0
    if part is None and count > 1:
        raise InputError(
            f"the pipeline is too large for one upload and has {count} parts; "
            f"`omni-ci upload` sends them all, --part 1 to --part {count} writes one"
        )
    say("\n".join(summary(made.selection)))
    write_document(generated.parts[(part or 1) - 1])
    return 0
