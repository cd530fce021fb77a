"""The runtime's guide works as written; the other pages run against the wheel, in tests/contracts/test_guide_pages.py."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.core_model, pytest.mark.cpu]


@pytest.mark.skipif(
    shutil.which("curl") is None,
    reason="the page talks to the server with curl, which is not on this machine",
)
def test_the_pages_commands_work_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    docs_pages = importlib.import_module("docs_pages")
    page = (ROOT / "docs/user_guide/runtime.md").read_text(encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    problems = docs_pages.check(page, os.environ | {"PATH": path})
    assert not problems, "\n\n".join(problems)
