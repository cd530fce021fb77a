"""A live line while a server starts: on a terminal only, a pipe stays quiet."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import pytest

from pytest_omni.servers.params import shown_text
from pytest_omni.servers.starting import Sight

_EVERY_S = 1.0
_QUIET_S = 10.0


class ServerProgress:
    """Shows how far a start has come, once a second, and wipes the line when the server is ready."""

    def __init__(self, config: pytest.Config, model: str, weights: str) -> None:
        self._model, self._weights = shown_text(model, os.environ), weights
        self._capture: Any = config.pluginmanager.getplugin("capturemanager")
        reporter: Any = config.pluginmanager.getplugin("terminalreporter")  # workers have none
        self._reporter = reporter if reporter is not None and reporter.isatty else None
        self._next_s = _EVERY_S
        self._shown = False

    def __call__(self, sight: Sight) -> None:
        """Take one look at the server."""
        if self._reporter is None:
            return
        if sight.ready and self._shown:
            self._write(self._reporter, "")
        elif not sight.ready and sight.seconds >= self._next_s:
            self._next_s = sight.seconds + _EVERY_S
            silent = f", log silent for {sight.quiet:.0f} s" if sight.quiet >= _QUIET_S else ""
            line = f"omni_server {self._model} ({self._weights} weights): {sight.seconds:.0f} s, {sight.words}{silent}"
            self._write(self._reporter, line)

    def _write(self, reporter: Any, line: str) -> None:
        self._shown = bool(line)
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            reporter.rewrite(line, erase=True)
