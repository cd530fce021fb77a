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


def test_links_of_a_commit_lead_where_those_of_the_tree_do(scratch: Any, tmp_path: Path) -> None:
    """Presets that are a link were the link's own text at the base: everything ran, and no fork could be planned."""
    (tmp_path / "outside.yml").write_text("outside\n")
    links = {
        "link.md": "docs/index.md",
        "docs/up.md": "../link.md",
        "pages": "docs",
        "out.yml": "../outside.yml",
        "far.yml": str(tmp_path / "outside.yml"),
    }
    for name, target in links.items():
        (scratch.root / name).symlink_to(target)
    commit = scratch.commit()
    here, there = Tree(scratch.root), Commit(Repository(scratch.root), commit)
    expected = {
        "link.md": "# Hello\n",
        "docs/up.md": "# Hello\n",
        "pages/index.md": "# Hello\n",
        "out.yml": "outside\n",
        "far.yml": "outside\n",
        "pages/no.md": None,
        "link.md/x": None,
    }
    assert {name: there.read(name) for name in expected} == expected
    assert {name: here.read(name) for name in expected} == expected
    assert there.listed("pages") == here.listed("pages") == ["pages/index.md", "pages/up.md"]
    assert there.listed("link.md") == there.listed("nowhere") == []
    scratch.commit({"docs/index.md": "# Other\n"})
    assert there.read("link.md") == "# Hello\n"


def test_a_link_of_a_commit_that_leads_nowhere_is_told(scratch: Any) -> None:
    (scratch.root / "link.yml").symlink_to("gone.yml")
    (scratch.root / "loop.yml").symlink_to("loop.yml")
    there = Commit(Repository(scratch.root), scratch.commit())
    for name in ("link.yml", "loop.yml"):
        with pytest.raises(
            InputError, match=rf"{name}: is a link that leads nowhere at [0-9a-f]{{12}}; mend"
        ):
            there.read(name)


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_no_files(scratch: Any, path: str) -> None:
    assert Tree(scratch.root).read(path) is None
    assert Commit(Repository(scratch.root), "HEAD").read(path) is None
    assert Repository(scratch.root).commit(path) is None


@pytest.mark.parametrize("text", ["", "\udcff\n", "no end", "a\r\nb\n", "1 blob 3\nabc\n"])
def test_a_text_comes_back_as_it_is(scratch: Any, text: str) -> None:
    (scratch.root / "odd name: x.md").write_bytes(text.encode("utf-8", "surrogateescape"))
    there = Commit(Repository(scratch.root), scratch.commit())
    assert there.read("odd name: x.md") == text
