"""Runs the halves of a split: guards, children, reports, uploads. The rim around `coverage`."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from omni_ci.coverage import core as cores
from omni_ci.coverage import tally as tallying
from omni_ci.coverage.report import Report, read_report
from omni_ci.coverage.split import Counts, Half, Outcome, Plan, is_measurement, judge_half
from omni_ci.coverage.upload import AGENT, Say, upload
from omni_ci.errors import GuardError
from omni_ci.runner.stopping import told_signals
from omni_hardware.errors import InputError, did_you_mean


@dataclass(slots=True)
class Children:
    """Runs one child at a time and passes on the signals that ask us to stop."""

    received: int | None = None
    running: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def run(self, command: Sequence[str], *, environ: Mapping[str, str]) -> int:
        """Return the child's status, negative for the signal that ended it."""
        # A group of its own: a signal to our group reaches the tests once, through us, and not twice.
        # No standard input: a read from outside the terminal's foreground group would stop the child for good.
        child = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, process_group=0)
        self.running = child
        try:
            if self.received:
                child.send_signal(self.received)
            return child.wait()
        finally:
            self.running = None

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Remember the signal and pass it to the child that runs now."""
        self.received = number
        if self.running is not None:
            self.running.send_signal(number)


@contextmanager
def forwarded_signals() -> Iterator[Children]:
    """Yield a Children that hears SIGTERM, SIGINT and SIGHUP until the block ends."""
    children = Children()
    with told_signals(children.on_signal):
        yield children


def check_paths(plan: Plan) -> None:
    """Raise InputError naming every test path of the plan that does not exist."""
    lines = [
        f"--{half.mode} {path}: no such file or folder{did_you_mean(path, _neighbours(path))}"
        for half in plan.halves
        for path in half.paths
        if not _file_of(path).exists()
    ]
    if lines:
        raise InputError("\n".join(lines))


def check_environment(plan: Plan, *, environ: Mapping[str, str]) -> None:
    """Raise GuardError when a half could not be measured, or its report not be uploaded."""
    if importlib.util.find_spec("pytest_cov") is None:
        raise GuardError(
            f"pytest-cov is not installed for {sys.executable}: nothing would be measured, so no test was run.\n"
            "Install it with: pip install 'pytest-omni[cov]'"
        )
    if plan.uploads and shutil.which(AGENT, path=environ.get("PATH")) is None:
        raise GuardError(
            f"{AGENT} is not on PATH inside Buildkite: the reports could not be uploaded, so no test was run.\n"
            "Mount it into the container (docker plugin: `mount-buildkite-agent: true`)."
        )


def clear_stale(plan: Plan, *, folder: Path) -> None:
    """Remove what an earlier run of this step left, for both modes: an old report must not pass for a new one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--reports {folder}: cannot be a folder: {error.strerror}") from None
    for name in plan.stale:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise GuardError(f"cannot remove the stale report {folder / name}: {error.strerror}") from None


def run_halves(
    plan: Plan, children: Children, *, folder: Path, environ: Mapping[str, str], say: Say
) -> Iterator[Outcome]:
    """Yield the outcome of each half, its report compressed and uploaded before the next half starts."""
    for half in plan.halves:
        if children.received:
            yield Outcome(half=half, status=None)
            continue
        with tempfile.TemporaryDirectory(prefix="cov-split-") as scratch:
            outcome = _run_half(
                half, plan, children, folder=folder, scratch=Path(scratch), environ=environ, say=say
            )
        if plan.uploads and is_measurement(outcome):
            say(f"--- {half.mode}: {AGENT} artifact upload {half.report}")
            problem = upload(half.report, folder=folder, environ=environ, say=say)
            outcome = replace(outcome, problem=problem, kept="on disk" if problem else "uploaded")
        yield outcome


def pytest_command(half: Half, plan: Plan, *, folder: Path) -> list[str]:
    """Return the half's pytest command; the caller's own arguments go to both halves as they came."""
    return [
        *(sys.executable, "-m", "pytest", "-s", "-v", *half.paths, *plan.forwarded),
        # by name, so that they load where plugin autoload is off; the measured source comes from the config
        *("-p", "pytest_cov", "-p", tallying.__name__),
        *("--cov", f"--cov-report=xml:{folder / half.xml}"),
    ]


def _run_half(
    half: Half,
    plan: Plan,
    children: Children,
    *,
    folder: Path,
    scratch: Path,
    environ: Mapping[str, str],
    say: Say,
) -> Outcome:
    command = pytest_command(half, plan, folder=folder)
    say(f"--- {half.mode} half of {plan.model_id}: {shlex.join(command)}")
    core = cores.choose(cores.wanted_of(plan.forwarded, environ))
    say(f"coverage core {core.name}: {core.because}")
    tally = scratch / "tally.json"
    measured = {
        **environ,
        # Data of its own: nothing that another half or an interrupted run left is combined into this report.
        "COVERAGE_FILE": str(scratch / ".coverage"),
        cores.VARIABLE: core.name,
        tallying.ENVIRONMENT: str(tally),
    }
    status = children.run(command, environ=measured)
    counts = Counts(**json.loads(tally.read_text(encoding="utf-8"))) if tally.is_file() else None
    ran = Outcome(half=half, status=status, counts=counts)
    report, problem = _take_report(half, folder=folder)
    if judge_half(ran).code and not (report and report.total.covered):
        problem = None  # what pytest itself says explains the missing report
    kept = "on disk" if (folder / half.report).is_file() else ""
    return replace(ran, report=report, problem=problem, kept=kept)


def _take_report(half: Half, *, folder: Path) -> tuple[Report | None, str | None]:
    """Compress the half's XML; return its figures and what is wrong with it."""
    xml = folder / half.xml
    if not xml.is_file():
        return None, f"pytest wrote no {half.xml}"
    content = xml.read_bytes()
    (folder / half.report).write_bytes(gzip.compress(content, 9, mtime=0))
    xml.unlink()
    try:
        report = read_report(content, root=Path.cwd())
    except InputError as error:
        return None, f"{half.report} is {error}"
    if not report.total.covered:
        return report, f"{half.report} covers no line: was the code under test imported and measured?"
    return report, None


def _file_of(path: str) -> Path:
    """Return the file of a test path that may select a test (`tests/x.py::test_y`)."""
    return Path(path.partition("::")[0])


def _neighbours(path: str) -> list[str]:
    parent = _file_of(path).parent
    return sorted(str(entry) for entry in parent.iterdir()) if parent.is_dir() else []
