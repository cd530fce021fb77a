"""Folders of one job's own: no compiler cache or database of a job is written by another one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from omni_ci.errors import GuardError

LOCAL = "local"
_TEMPORARY = "/tmp"  # noqa: S108 - the root below it is checked to be ours
_DATABASE = "MIOPEN_USER_DB_PATH"
# The variable, and its folder below the job's root.
FOLDERS: Mapping[str, str] = MappingProxyType(
    {
        "TMPDIR": "tmp",
        "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
        "TRITON_CACHE_DIR": "triton",
        "VLLM_CACHE_ROOT": "vllm",
        "XDG_CACHE_HOME": "xdg",
        "HF_DATASETS_CACHE": "huggingface/datasets",
        # written by every process that runs a convolution: shared by several, it breaks (omni#7605)
        _DATABASE: "miopen/db",
        "MIOPEN_CUSTOM_CACHE_DIR": "miopen/cache",
    }
)
# Where the startup module finds it; each of its slots is a folder there.
_SLOTS = "OMNI_MIOPEN_SLOTS"
_STARTUP = Path(__file__).parent / "startup"
_NAMED_BY = ("BUILDKITE_JOB_ID", "BUILDKITE_PARALLEL_JOB")
_ODD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """A job's own folders. kept: variables that the job had set itself, which stay as they are."""

    root: Path
    variables: Mapping[str, str]
    kept: tuple[str, ...] = ()


def job_name(environ: Mapping[str, str]) -> str:
    """Return what tells this job from others: Buildkite's id of it, else its number among parallel ones, else "local".

    >>> job_name({"BUILDKITE_JOB_ID": "01/../x"})
    '01_.._x'
    """
    found = next((environ[name] for name in _NAMED_BY if environ.get(name)), LOCAL)
    # a folder's name: no way up, and not hidden
    return _ODD.sub("_", found).lstrip(".") or LOCAL


def caches_of(environ: Mapping[str, str], *, base: Path | None = None) -> Caches:
    """Return the folders of the job in *environ* below *base* (default: where temporary files go); nothing is made."""
    base = base or Path(environ.get("TMPDIR") or _TEMPORARY)
    name = job_name(environ)
    # a machine that several people use has one folder for each of them
    root = base / (f"omni-{name}-{os.geteuid()}" if name == LOCAL else f"omni-{name}")
    kept = tuple(name for name in FOLDERS if environ.get(name))
    # its default lies below XDG_CACHE_HOME, and models must not be fetched again by every job
    home = {} if environ.get("HF_HOME") else {"HF_HOME": str(_models(environ))}
    made = home | {
        name: str(root / folder) for name, folder in FOLDERS.items() if name == "TMPDIR" or name not in kept
    }
    return Caches(root=root, variables=made, kept=tuple(name for name in kept if name != "TMPDIR"))


def _models(environ: Mapping[str, str]) -> Path:
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - HOME may be unset
    return Path(caches) / "huggingface"


def for_each_process(caches: Caches, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give each Python of the job a MIOpen database of its own (omni#7605)."""
    if _DATABASE not in caches.variables:
        return {}  # the job chose one itself
    paths = (str(_STARTUP), environ.get("PYTHONPATH", ""))
    return {_SLOTS: caches.variables[_DATABASE], "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def make(caches: Caches) -> None:
    """Make the folders. Raises GuardError where that fails, or where somebody else owns the root."""
    try:
        caches.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = caches.root.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise GuardError(f"{caches.root}: is not a folder of this user; remove it, or set TMPDIR")
        for name in FOLDERS:
            if name in caches.variables:
                Path(caches.variables[name]).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GuardError(
            f"{caches.root}: the job's cache folders cannot be made: {error.strerror}; set TMPDIR to a folder that "
            "can be written"
        ) from None
