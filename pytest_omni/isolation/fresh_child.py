"""The program of a fresh process: read the request, become like the session that sent it, run pytest.

Run by its path, with the standard library only until sys.path is what it is over there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(request_file: str) -> int:
    """Return pytest's exit code."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    os.chdir(request["folder"])
    sys.path[:] = request["path"]
    sys.argv[:] = request["argv"]

    import pytest

    from pytest_omni.isolation.fresh_reporter import Reporter

    return int(pytest.main(request["args"], plugins=[Reporter(request)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
