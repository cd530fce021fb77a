"""The guides of runtime and orchestrator work as written; the plugin's pages run against the wheel, beside test_wheel.py."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = {path.stem for path in (ROOT / "docs/user_guide").glob("*.md")}
HERE = ("orchestrator", "runtime")
ON_THE_WHEEL = ("plugin", "servers", "devices", "sharding")

pytestmark = [pytest.mark.core_model, pytest.mark.cpu]


@pytest.fixture
def docs_pages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("docs_pages")


def test_every_page_is_run_somewhere() -> None:
    assert set(HERE) | set(ON_THE_WHEEL) == GUIDE


@pytest.mark.parametrize("name", HERE)
def test_the_pages_commands_work_in_order(name: str, docs_pages) -> None:
    if name == "runtime" and shutil.which("curl") is None:
        pytest.skip("the page talks to the server with curl, which is not on this machine")
    page = (ROOT / f"docs/user_guide/{name}.md").read_text(encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    problems = docs_pages.check(page, os.environ | {"PATH": path})
    assert not problems, "\n\n".join(problems)
