"""A bar on a terminal, silence in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omni.engine.request import Progress


@contextlib.contextmanager
def shown(images: int) -> Iterator[Progress | None]:
    """Yield what to call after each step; None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("generating", total=None)

        def step_done(image: int, step: int, steps: int) -> None:
            bar.update(task, total=images * steps, completed=image * steps + step)

        yield step_done
