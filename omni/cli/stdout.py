"""Standard output that fails in words: a full disk is one message, a reader that left is silence."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from omni.errors import InfrastructureError, OmniError


class ReaderGone(OmniError):  # noqa: N818 - an outcome, not a mistake
    """Whoever read our output closed it, as `head` does; the exit code is that of SIGPIPE."""

    exit_code = 141


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Make printing raise InfrastructureError, or ReaderGone, where standard output cannot be written."""
    real = sys.stdout
    if real is None:  # closed by the caller: printing does nothing
        yield
        return
    ours: Any = _Guarded(real)
    with contextlib.redirect_stdout(ours):
        yield
        # What is still in the buffer would fail after the last line of ours.
        ours.flush()


class _Guarded:
    """A text stream, seen through: only its failures differ."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _in_words(self._stream):
            return self._stream.write(text)

    def flush(self) -> None:
        with _in_words(self._stream):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _in_words(stream: TextIO) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _discard(stream)
        if isinstance(error, BrokenPipeError):
            raise ReaderGone("standard output was closed") from None
        raise InfrastructureError(f"standard output cannot be written: {error.strerror}") from None


def _discard(stream: TextIO) -> None:
    # The interpreter flushes once more at its end, and would complain there.
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
