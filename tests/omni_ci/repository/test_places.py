"""Files as the working tree and a commit have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omni_ci.repository.git import Repository
from omni_ci.repository.places import Commit, Tree
from omni_hardware.errors import InputError


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


@pytest.mark.parametrize("path", ["nowhere", "docs/index.md/x", "x" * 300])
def test_what_is_no_file_is_none(scratch: Any, path: str) -> None:
    assert Tree(scratch.root).read(path) is None
    assert Commit(Repository(scratch.root), "HEAD").read(path) is None


def test_what_stands_where_a_file_is_read_is_never_taken_for_none(scratch: Any) -> None:
    (scratch.root / "link.yml").symlink_to("gone.yml")
    with pytest.raises(InputError, match="docs: is a folder, where a file is read"):
        Tree(scratch.root).read("docs")
    with pytest.raises(InputError, match=r"link\.yml: is a link to gone\.yml, which does not exist"):
        Tree(scratch.root).read("link.yml")
