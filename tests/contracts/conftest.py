"""Environments that hold the built wheel and exactly what it declares, made without a download."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


class Environment:
    """A virtual environment; `run` calls one of its programs in a folder."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self.packages = next((folder / "lib").glob("python3.*")) / "site-packages"

    def link(self, found: Distribution) -> None:
        """Put an installed distribution in, metadata and entry points included."""
        for top in {
            file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}
        }:
            if not (self.packages / top).exists():
                (self.packages / top).symlink_to(found.locate_file(top))
        for entry in found.entry_points.select(group="console_scripts"):
            program = self.bin / entry.name
            if not program.exists():  # the one that is installed names another interpreter
                module, _, function = entry.value.partition(":")
                program.write_text(
                    f"#!{self.python}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
                )
                program.chmod(0o755)

    def environ(self, home: Path) -> dict[str, str]:
        """Return the variables of somebody who has this environment, and nothing else, on the path."""
        return {"HOME": str(home), "PATH": f"{self.bin}:/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(self, *command: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment; only what is in it is found."""
        program = str(self.bin / command[0])
        return subprocess.run(
            [program, *command[1:]],
            cwd=cwd,
            env=self.environ(cwd) | environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def closure(requirements: list[Requirement]) -> dict[str, Distribution]:
    """Return the installed distributions that *requirements* need, and those that they need."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    queue = [(need, "") for need in requirements]
    while queue:
        need, extra = queue.pop()
        if need.marker and not need.marker.evaluate({"extra": extra}):
            continue
        for inner in ("", *need.extras):
            if (need.name, inner) not in seen:
                seen.add((need.name, inner))
                found[need.name] = distribution(need.name)
                queue += [(Requirement(text), inner) for text in found[need.name].requires or ()]
    return found


def declared(wheel: Path, *extras: str) -> list[Requirement]:
    """Return what the wheel's own metadata asks for with *extras*."""
    with ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    needs = [
        Requirement(line.removeprefix("Requires-Dist: "))
        for line in lines
        if line.startswith("Requires-Dist: ")
    ]
    wanted = [
        need
        for need in needs
        if not need.marker or any(need.marker.evaluate({"extra": e}) for e in ("", *extras))
    ]
    for need in wanted:
        need.marker = None  # judged just now
    return wanted


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def environment_with(wheel, tmp_path_factory):
    """Make an Environment with the wheel, what it declares for the extras named, and *others* beside it."""
    made: dict[tuple[tuple[str, ...], tuple[str, ...]], Environment] = {}

    def make(*extras: str, others: tuple[str, ...] = ()) -> Environment:
        key = (extras, others)
        if key not in made:
            environment = Environment(tmp_path_factory.mktemp("environment") / "venv")
            for found in closure([*declared(wheel, *extras), *map(Requirement, others)]).values():
                environment.link(found)
            install = (
                "-m",
                "pip",
                "--python",
                str(environment.python),
                "install",
                "-q",
                "--no-deps",
                "--no-index",
            )
            subprocess.run([sys.executable, *install, str(wheel)], check=True, capture_output=True)
            made[key] = environment
        return made[key]

    return make


@pytest.fixture
def repository(tmp_path):
    """A git repository that is not this one, with a test and one commit."""
    root = tmp_path / "consumer"
    (root / "tests").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\nname = "consumer"\nversion = "1"\n')
    (root / "tests/test_maths.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('x', [1, 2])\ndef test_double(x):\n    assert x + x == 2 * x\n"
    )
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=root, env=environ, check=True)
    return root
