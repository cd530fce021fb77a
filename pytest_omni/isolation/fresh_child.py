"""The program of a fresh process: read the request, become like the session that sent it, run pytest.

Run by its path, with the standard library only until sys.path is what it is over there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def main(request_file: str) -> int:
    """Return pytest's exit code."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    os.chdir(request["folder"])
    sys.path[:] = request["path"]
    sys.argv[:] = request["argv"]

    import pytest

    return int(pytest.main(request["args"], plugins=[_Start(request)]))


class _Start:
    """Brings the reporter in once pytest rewrites imports: what is imported before, it warns of."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request

    def pytest_load_initial_conftests(self, early_config: pytest.Config) -> None:
        """Register the reporter before anything of the project is imported."""
        from pytest_omni.isolation.fresh_reporter import Reporter
        from pytest_omni.isolation.fresh_run import CHILD

        early_config.pluginmanager.register(Reporter(self._request), CHILD)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
