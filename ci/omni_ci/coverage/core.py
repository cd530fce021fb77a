"""Which of coverage's cores measures a half: the fast one where this Python has it, else one that never aborts.

sysmon costs about nothing, where ctrace makes call-heavy code several times slower; but only Python 3.12 and later
have it, up to 3.13 without branches, and never with contexts. Asked for where it cannot be had, coverage 7.11.1 and
7.11.2 end the run, and later ones warn once a process, which fails a session that turns warnings into errors
(coveragepy#2076, #2078). So the core is not left to a file that many interpreters read: it is set here, for each run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VARIABLE = "COVERAGE_CORE"  # beats the file


@dataclass(frozen=True, slots=True)
class Core:
    """A core, and why it is this one."""

    name: str
    because: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is asked of coverage. core: named by the file or the environment, "" if by neither."""

    branch: bool = False
    contexts: bool = False
    greenlets: bool = False
    plugins: bool = False
    core: str = ""


def choose(
    wanted: Measurement, *, python: tuple[int, ...] = sys.version_info[:2], has_tracer: bool | None = None
) -> Core:
    """Return the core for *wanted* on *python*; has_tracer: whether coverage was built with its C tracer."""
    with_tracer = _has_tracer() if has_tracer is None else has_tracer
    other = "ctrace" if with_tracer else "pytrace"
    why_not = _why_not_sysmon(wanted, python)
    if wanted.core and wanted.core != "sysmon":
        if wanted.core == "ctrace" and not with_tracer:
            return Core(other, "ctrace is asked for, and this coverage was built without it")
        return Core(wanted.core, f"{wanted.core} is asked for")
    if why_not:
        asked = "sysmon is asked for, and " if wanted.core else ""
        return Core(other, f"{asked}{why_not}")
    return Core("sysmon", f"Python {python[0]}.{python[1]} has it")


def wanted_of(forwarded: Sequence[str], environ: Mapping[str, str]) -> Measurement:
    """Return what pytest's arguments, the environment and the project's own settings ask of coverage."""
    options = _settings(forwarded)
    concurrency = options.get("concurrency") or ()
    return Measurement(
        branch=bool(options.get("branch")) or "--cov-branch" in forwarded,
        contexts=bool(options.get("dynamic_context"))
        or any(w.startswith("--cov-context") for w in forwarded),
        greenlets=any(name in concurrency for name in ("greenlet", "eventlet", "gevent")),
        plugins=bool(options.get("plugins")),
        core=environ.get(VARIABLE) or str(options.get("core") or ""),
    )


def _why_not_sysmon(wanted: Measurement, python: tuple[int, ...]) -> str:
    version = f"Python {python[0]}.{python[1]}"
    reasons = {
        f"{version} has no sysmon": python < (3, 12),
        f"on {version} sysmon measures no branches": wanted.branch and python < (3, 14),
        "sysmon knows no contexts": wanted.contexts,
        "sysmon knows no greenlets": wanted.greenlets,
        "sysmon knows no file tracer plugins": wanted.plugins,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _settings(forwarded: Sequence[str]) -> dict[str, Any]:
    """Return coverage's settings as it reads them in this folder; coverage itself says what stands wrong there."""
    from coverage import Coverage
    from coverage.exceptions import CoverageException

    given = next((word.partition("=")[2] for word in forwarded if word.startswith("--cov-config=")), "")
    found: dict[str, Any] = {}
    with contextlib.suppress(CoverageException):
        read = Coverage(data_file=None, config_file=given or True)
        for name in ("branch", "dynamic_context", "concurrency", "plugins", "core"):
            with contextlib.suppress(CoverageException):  # an older one has not all of them
                found[name] = read.get_option(f"run:{name}")
    return found


def _has_tracer() -> bool:
    return importlib.util.find_spec("coverage.tracer") is not None
