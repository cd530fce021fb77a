"""Files as the working tree and a commit have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omni_ci.git import Repository
from omni_ci.places import Commit, Tree


def test_a_commit_has_its_own_text_and_the_disk_has_what_lies_outside(scratch: Any, tmp_path: Path) -> None:
    outside = tmp_path / "presets.yml"
    outside.write_text("outside")
    scratch.write({"docs/index.md": "now", "docs/new.md": "new"})
    here, before = Tree(scratch.root), Commit(Repository(scratch.root), "HEAD")
    assert (here.read("docs/index.md"), before.read("docs/index.md")) == ("now", "# Hello\n")
    assert (here.read("docs/new.md"), before.read("docs/new.md")) == ("new", None)
    assert here.read(str(outside)) == before.read(str(outside)) == "outside"
    assert here.listed("docs") == ["docs/index.md", "docs/new.md"]
    assert before.listed("docs") == ["docs/index.md"]


@pytest.mark.parametrize("path", ["nowhere", "docs", "docs/index.md/x", "x" * 300])
def test_what_is_no_file_is_none(scratch: Any, path: str) -> None:
    assert Tree(scratch.root).read(path) is None
    assert Commit(Repository(scratch.root), "HEAD").read(path) is None
