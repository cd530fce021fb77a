"""Makes .venv and installs into it once: torch first, then everything else around it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed.json"
CONSTRAINTS = VENV / "constraints.txt"
TORCH = "torch==2.13.0"
EXTRAS = "runtime,dev,docs"
INDEX = "OMNI_TORCH_INDEX"


class SetupError(Exception):
    """Something this machine lacks, or an installation that failed; the message is complete."""


def install() -> bool:
    """Return True when something was installed, False when the environment was current.

    Raises SetupError naming what is missing and how to get it.
    """
    wanted = stamp((ROOT / "pyproject.toml").read_bytes())
    if PYTHON.exists() and is_current(STAMP, wanted):
        print(f"installed already: {VENV.name} is current, nothing to do")
        return False
    check_tools()
    started = time.monotonic()
    # until the end of the installation the environment is nobody's
    STAMP.unlink(missing_ok=True)
    if reason := reason_to_make():
        print(f"making {VENV.name}: {reason}", flush=True)
        # what another Python left there would be neither here nor gone
        call([sys.executable, "-m", "venv", "--clear", str(VENV)], failed=f"cannot make {VENV}")
    version = torch_version()
    if version:
        print(f"torch {version} is in {VENV.name} already and stays")
    else:
        say_index(os.environ)
        pip(*index_arguments(os.environ), TORCH)
        version = torch_version()
    print(f"installing -e .[{EXTRAS}] around torch {version}; a minute or two", flush=True)
    # The exact build, local version and all: nothing that comes later may replace it.
    CONSTRAINTS.write_text(f"torch=={version}\n", encoding="utf-8")
    pip("--constraint", str(CONSTRAINTS), "-e", f".[{EXTRAS}]")
    STAMP.write_text(json.dumps(wanted), encoding="utf-8")
    print(f"installed in {time.monotonic() - started:.0f} s")
    return True


def is_current(path: Path, wanted: object) -> bool:
    """Return whether the stamp at *path* says *wanted*; one that cannot be read says nothing."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")) == wanted)
    except (OSError, ValueError):
        return False


def reason_to_make() -> str | None:
    """Return why the environment has to be made anew, None when its Python is the one that runs this.

    Raises SetupError when its Python does not run.
    """
    if not PYTHON.exists():
        return "there is none"
    theirs, ours = ask_python("import sys; print(sys.version.split()[0])"), sys.version.split()[0]
    return None if theirs == ours else f"the one here has Python {theirs}, and this is {ours}"


def stamp(pyproject: bytes) -> dict[str, str]:
    """Return what an installation depends on: the packaging tables, and the interpreter."""
    tables = tomllib.loads(pyproject.decode())
    packaging = json.dumps([tables.get("build-system"), tables.get("project")], sort_keys=True)
    return {
        "packaging": hashlib.sha256(packaging.encode()).hexdigest(),
        "python": sys.version.split()[0],
        "extras": EXTRAS,
        "torch": TORCH,
    }


def check_tools() -> None:
    """Raise SetupError for the first tool that is missing."""
    if shutil.which("git") is None:
        raise SetupError("git is not on PATH; install it (Debian: apt-get install git)")
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            raise SetupError(
                f"{sys.executable} has no module {module}; install it (Debian: apt-get install python{version}-venv)"
            )


def index_arguments(environ: Mapping[str, str]) -> list[str]:
    """Return pip's arguments for the index that torch comes from."""
    return ["--index-url", environ[INDEX]] if environ.get(INDEX) else []


def say_index(environ: Mapping[str, str]) -> None:
    """Say where torch comes from, and why."""
    if environ.get(INDEX):
        print(f"installing {TORCH} from {environ[INDEX]}, because ${INDEX} says so", flush=True)
    else:
        print(
            f"installing {TORCH} from pip's own index, because ${INDEX} is not set\n"
            f"(without a GPU, set it to PyTorch's CPU wheel index: a tenth of the download)",
            flush=True,
        )


def torch_version() -> str | None:
    """Return the version of the torch in the environment, local part included; None without one."""
    script = (
        "import importlib.metadata as m\ntry: print(m.version('torch'))\nexcept m.PackageNotFoundError: pass"
    )
    return ask_python(script) or None


def ask_python(script: str) -> str:
    """Return what *script* prints in the environment; raises SetupError when its Python does not run."""
    try:
        done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(f"{PYTHON} does not run; remove {VENV} and try again: {error.strerror}") from error
    if done.returncode:
        raise SetupError(f"{PYTHON} does not run; remove {VENV} and try again:\n{done.stderr.strip()}")
    return done.stdout.strip()


def pip(*arguments: str) -> None:
    """Run `pip install` in the environment; raises SetupError."""
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "-qq",
        "--no-input",
        "--disable-pip-version-check",
        *arguments,
    ]
    call(command, failed=f"pip could not install {arguments[-1]}; its message stands above")


def call(command: Sequence[str], *, failed: str) -> None:
    """Run *command* in the repository; raises SetupError with *failed*."""
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code:
        raise SetupError(f"{failed} (exit {code})")
