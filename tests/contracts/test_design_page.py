"""The design page names modules and files that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/design/overview.md").read_text(encoding="utf-8")


def test_the_modules_between_the_rooms_of_the_orchestrator_exist() -> None:
    sentence = PAGE.split("Between the rooms stand single modules: ")[1].split("\n\n")[0]
    named = re.findall(r"`([a-z_]{2,})`", sentence)
    assert len(named) == 6
    assert [name for name in named if not (ROOT / "ci/omni_ci" / f"{name}.py").is_file()] == []


def test_the_rooms_of_the_orchestrator_stand_in_the_order_that_the_linter_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(c for c in contracts["contracts"] if c["name"] == "The orchestrator's layers")["layers"]
    depth = {module.strip(): depth for depth, layer in enumerate(layers) for module in layer.split("|")}
    section = PAGE.split("## The rooms of the orchestrator\n")[1].split("\n## ")[0]
    rooms = [room for room in re.findall(r"^\| `([a-z]+)/` \|", section, re.MULTILINE) if room != "data"]
    assert rooms == sorted(rooms, key=depth.__getitem__)
    assert set(rooms) == {path.parent.name for path in (ROOT / "ci/omni_ci").glob("*/__init__.py")}


def test_the_rooms_are_folders() -> None:
    for package, heading in (("pytest_omni", "plugin"), ("ci/omni_ci", "orchestrator")):
        section = PAGE.split(f"## The rooms of the {heading}\n")[1].split("\n## ")[0]
        rooms = re.findall(r"^\| `([a-z]+)/` \|", section, re.MULTILINE)
        assert rooms
        assert [room for room in rooms if not (ROOT / package / room).is_dir()] == []
        inside = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        assert inside - set(rooms) == set(), "a room that the page does not name"
