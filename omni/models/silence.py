"""Libraries that print progress bars into pipes, kept quiet while a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep diffusers' and transformers' bars off inside the block; a caller who had them on has them on again after."""
    from diffusers.utils import logging as of_diffusers
    from transformers.utils import logging as of_transformers

    with ExitStack() as after:
        for library in (of_diffusers, of_transformers):
            if library.is_progress_bar_enabled():
                library.disable_progress_bar()
                after.callback(library.enable_progress_bar)
        yield
