"""The design page names modules and files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/design/overview.md").read_text(encoding="utf-8")


def test_the_stages_of_the_orchestrator_name_modules_that_exist() -> None:
    table = PAGE.split("| stage | modules |\n|---|---|\n")[1].split("\n\n")[0]
    named = re.findall(r"`([a-z_*]+)`", table)
    assert len(named) > 40
    modules = {path.stem for path in (ROOT / "ci/omni_ci").rglob("*.py")}
    patterns = [re.compile(name.replace("*", ".*")) for name in named]
    assert [p.pattern for p in patterns if not any(p.fullmatch(module) for module in modules)] == []


def test_the_rooms_are_folders() -> None:
    for package, heading in (("pytest_omni", "plugin"), ("ci/omni_ci", "orchestrator")):
        section = PAGE.split(f"## The rooms of the {heading}\n")[1].split("\n## ")[0]
        rooms = re.findall(r"^\| `([a-z]+)/` \|", section, re.MULTILINE)
        assert rooms
        assert [room for room in rooms if not (ROOT / package / room).is_dir()] == []
        inside = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        assert inside - set(rooms) == set(), "a room that the page does not name"
