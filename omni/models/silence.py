"""Libraries that print progress bars and reports into pipes, kept quiet while a block runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep diffusers' and transformers' bars and logs off inside the block; the caller's settings come back after.

    The switches are the process's: hold the turn (`omni.models.turn`). What the logs say is an error of ours.
    """
    from diffusers.utils import logging as of_diffusers
    from transformers.utils import logging as of_transformers

    with ExitStack() as after:
        for library in (of_diffusers, of_transformers):
            if library.is_progress_bar_enabled():
                library.disable_progress_bar()
                after.callback(library.enable_progress_bar)
            after.callback(library.set_verbosity, library.get_verbosity())
            library.set_verbosity(logging.CRITICAL)
        yield
