"""Whether coverage of a child process is really recorded here: measure one, stop it as a server is stopped, look.

A child loses its coverage in silence: no `patch = subprocess`, a coverage too old for it, a site-packages without
coverage's .pth, no `sigterm` (pytest-cov#715, coveragepy#1307). So one is started instead of judging the settings.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omni_hardware.errors import strip_controls
from pytest_omni.diagnosis.doctor import Finding, State

_LIMIT_S = 60.0
_TOPIC = "coverage"
_PATCH_SINCE = (7, 10)
_PTH_SINCE = (7, 13)
_LINES_TO_ADD = '[tool.coverage.run] patch = ["subprocess", "_exit"] and sigterm = true, in pyproject.toml'

# What a server is to coverage: a loop that only SIGTERM ends. Each line has run when the first word comes out.
CHILD = """\
import time


def serve():
    while True:
        time.sleep(0.02)
        print("ready", flush=True)


serve()
"""
CHILD_LINES = frozenset({1, 4, 5, 6, 7, 10})

# What pytest is to it: measured itself, starts the child and stops it. Prints what it knows as JSON.
PARENT = """\
import json, subprocess, sys

import coverage

child = subprocess.Popen([sys.executable, sys.argv[1]], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
child.terminate()
try:
    child.wait(10)
except subprocess.TimeoutExpired:
    child.kill()
    child.wait()


def option(name):
    try:
        return coverage.Coverage.current().get_option(name)
    except Exception:
        return None


monitoring = getattr(sys, "monitoring", None)
tool = monitoring and monitoring.get_tool(monitoring.COVERAGE_ID)
tracer = type(sys.gettrace()).__name__
core = "sysmon" if tool else "ctrace" if tracer == "CTracer" else "pytrace"
facts = {name: option("run:" + name) for name in ("patch", "sigterm", "core", "branch")}
print(json.dumps({**facts, "used": core, "version": coverage.__version__, "exit": child.returncode}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the probe saw. lines: of the child, None where coverage itself is missing. failed: why there is no answer.

    settings: patch, sigterm, core and branch, as coverage read them here.
    """

    lines: frozenset[int] | None = None
    failed: str = ""
    version: str = ""
    used: str = ""
    exit: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    pth: bool = True


def run(root: Path, *, rcfile: str | None = None) -> Result:
    """Return what happened to a child that was measured with the settings of the project in *root*."""
    if importlib.util.find_spec("coverage") is None:
        return Result()
    with tempfile.TemporaryDirectory(prefix="pytest-omni-coverage-") as name:
        folder = Path(name).resolve()
        child, parent, data = folder / "child.py", folder / "parent.py", folder / "data"
        child.write_text(CHILD, encoding="utf-8")
        parent.write_text(PARENT, encoding="utf-8")
        command = [
            *(sys.executable, "-m", "coverage", "run", f"--data-file={data}", f"--source={folder}"),
            *([f"--rcfile={rcfile}"] if rcfile and (root / rcfile).is_file() else []),
            *(str(parent), str(child)),
        ]
        try:
            done = subprocess.run(
                command,
                cwd=root,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return Result(lines=frozenset(), failed=f"the probe gave no answer in {_LIMIT_S:g} s")
        return _result(done, folder, child)


def judge(result: Result, *, asked: bool) -> Iterator[Finding]:
    """Yield what to tell; a loss is a problem where this project measures (*asked*, or settings say so)."""
    if result.lines is None:
        text = "coverage is not installed: nothing is measured"
        yield Finding(_TOPIC, text, State.PROBLEM if asked else State.NOTE, "pip install 'pytest-omni[cov]'")
        return
    if result.failed:
        yield Finding(
            _TOPIC, f"coverage cannot run here: {result.failed}", State.PROBLEM, core_remedy(result.failed)
        )
        return
    core = f"coverage {result.version}, core {result.used}"
    wanted = result.settings.get("core")
    if lost := CHILD_LINES - result.lines:
        uses = asked or any(result.settings.get(name) for name in ("patch", "sigterm"))
        what = (
            f"{len(result.lines)} of {len(CHILD_LINES)} lines" if len(lost) < len(CHILD_LINES) else "nothing"
        )
        text = f"{what} recorded of a child process that SIGTERM stopped ({core})"
        yield Finding(_TOPIC, text, State.PROBLEM if uses else State.NOTE, remedy(result))
    else:
        yield Finding(
            _TOPIC, f"a child process that SIGTERM stopped left all its {len(CHILD_LINES)} lines ({core})"
        )
    if wanted and wanted != result.used:
        text = f"core = {wanted!r} is asked for and cannot be used here, {result.used} is; coverage 7.11.1 and 7.11.2 stop instead"
        yield Finding(_TOPIC, text, State.NOTE, "leave `core` out: the best one that works is chosen anyway")


def remedy(result: Result) -> str:
    """Return the first thing that is missing for a child to be recorded."""
    if _number(result.version) < _PATCH_SINCE:
        return f"coverage {result.version} knows no `patch`: pip install 'coverage>=7.13'"
    if "subprocess" not in (result.settings.get("patch") or ()) or not result.settings.get("sigterm"):
        return _LINES_TO_ADD
    if not result.pth:
        return (
            "coverage's .pth file is not in site-packages, so no child starts measuring: "
            f"pip install 'coverage>={'.'.join(map(str, _PTH_SINCE))}', which brings it along"
        )
    if result.exit == -9:
        return "the child had to be killed: something in it keeps SIGTERM from Python's main thread"
    return "the child ran in an environment without COVERAGE_PROCESS_CONFIG: a sitecustomize or a wrapper cleans it"


def core_remedy(failed: str) -> str:
    """Return what to do where coverage refuses to start for the core that it is told to use."""
    return (
        'take `core = "sysmon"` and COVERAGE_CORE out: this Python or coverage has none'
        if "sysmon" in failed
        else ""
    )


def _result(done: subprocess.CompletedProcess[str], folder: Path, child: Path) -> Result:
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith("{"):
        return Result(lines=frozenset(), failed=strip_controls(_last_words(done)))
    facts = json.loads(lines[-1])
    return Result(
        lines=_recorded(folder, child),
        version=facts.pop("version"),
        used=facts.pop("used"),
        exit=facts.pop("exit"),
        settings=facts,
        pth=_has_pth(),
    )


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of what was printed, and the line that it continues where it is indented."""
    words: list[str] = []
    for line in reversed(
        (done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}").splitlines()
    ):
        words.insert(0, line.strip())
        if not line[:1].isspace():
            break
    return " ".join(words)


def _recorded(folder: Path, child: Path) -> frozenset[int]:
    from coverage import CoverageData

    found: set[int] = set()
    for path in folder.glob("data*"):
        data = CoverageData(str(path))
        data.read()
        found |= set(data.lines(str(child)) or ())
    return frozenset(found) & CHILD_LINES


def _has_pth() -> bool:
    import coverage

    return any(Path(str(coverage.__file__)).parents[1].glob("*coverage*.pth"))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
