"""What the libraries say while the engine works."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def silence() -> Iterator[None]:
    """Fail where diffusers or transformers log anything: their handlers hold the stderr of their import, no capture's."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    listener = Listener()
    loggers = [logging.getLogger(name) for name in ("diffusers", "transformers")]
    for logger in loggers:
        logger.addHandler(listener)
    yield
    for logger in loggers:
        logger.removeHandler(listener)
    assert said == []
