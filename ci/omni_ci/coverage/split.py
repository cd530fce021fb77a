"""What `cov split` runs for a model, and what the outcome means. Pure: no process, no file, no clock.

A split has up to two halves, offline and online, each a pytest run of its own with a coverage report of its
own. Both always run; their exit codes stay apart until `judge` names the one that counts.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from omni_ci.coverage.report import Report
from omni_ci.errors import GuardError
from omni_hardware.errors import InputError

NO_TESTS = 5
# What a pipeline sets on its steps in builds that do not measure.
VARIABLE = "OMNI_COVERAGE"
OFF = "off"
_MODEL_ID = re.compile(r"[a-z0-9_]+")
_STEP_ID = re.compile(r"[A-Za-z0-9_.-]+")

# https://docs.pytest.org/en/stable/reference/exit-codes.html
_PYTEST_STATUS = {
    1: "tests failed",
    2: "pytest was interrupted, or a file could not be collected",
    3: "pytest failed inside",
    4: "pytest refused its arguments",
    5: "no test was selected",
}


class Mode(StrEnum):
    """How the model is driven: by its Python class, or through a server."""

    OFFLINE = "offline"
    ONLINE = "online"


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One pytest run: the paths it collects and the report it writes (XML before compression)."""

    mode: Mode
    paths: tuple[str, ...]
    xml: str

    @property
    def report(self) -> str:
        """The compressed report, which is what is kept and uploaded."""
        return f"{self.xml}.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a split runs; `stale` names what earlier runs of this step left, for both modes."""

    model_id: str
    halves: tuple[Half, ...]
    forwarded: tuple[str, ...]
    stale: tuple[str, ...]
    uploads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many tests ran their body, how many were skipped, and how many failed, set-up and clean-up included."""

    executed: int
    skipped: int
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a half. `status` is the child's own, negative for a signal; None means it never ran."""

    half: Half
    status: int | None
    counts: Counts | None = None
    report: Report | None = None
    # What is wrong with the report or its upload; it decides only where the tests are fine.
    problem: str | None = None
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An exit code and the sentence that explains it; it cannot exist without one."""

    code: int
    because: str

    def __post_init__(self) -> None:
        if not self.because.strip():
            raise ValueError(f"exit code {self.code} needs a reason")


def plan_split(
    model_id: str,
    *,
    offline: Sequence[str],
    online: Sequence[str],
    forwarded: Sequence[str],
    environ: Mapping[str, str],
) -> Plan:
    """Return the halves to run and the names of their reports.

    Raises InputError for arguments that cannot work, GuardError for an environment that would lose a report.
    """
    if not _MODEL_ID.fullmatch(model_id):
        legal = re.sub(r"[^a-z0-9_]+", "_", model_id.lower()).strip("_")
        hint = f" (did you mean {legal!r}?)" if legal else ""
        raise InputError(f"--model-id {model_id!r}: only a-z, 0-9 and _, because it names report files{hint}")
    paths = {Mode.OFFLINE: tuple(offline), Mode.ONLINE: tuple(online)}
    for mode, given in paths.items():
        if empty := [path for path in given if not path.partition("::")[0]]:
            raise InputError(f"--{mode} {empty[0]!r}: names no file or folder")
    if not any(paths.values()):
        raise InputError("nothing to run: give at least one --offline PATH or --online PATH")
    uploads = environ.get("BUILDKITE") == "true"
    suffix = _step_suffix(environ, required=uploads)
    names = {mode: f"coverage-{model_id}-{mode}-{suffix}.xml" for mode in Mode}
    return Plan(
        model_id=model_id,
        halves=tuple(Half(mode=mode, paths=paths[mode], xml=names[mode]) for mode in Mode if paths[mode]),
        forwarded=tuple(forwarded),
        stale=tuple(f"{name}{ending}" for name in names.values() for ending in ("", ".gz")),
        uploads=uploads,
    )


def judge_half(outcome: Outcome) -> Verdict:
    """Return the half's own exit code: pytest's, 128 + N for signal N, or 5 when no test body ran."""
    match outcome:
        case Outcome(status=None):
            return Verdict(code=0, because="not run")
        case Outcome(status=int(status)) if status < 0:
            return Verdict(code=128 - status, because=f"ended by {_signal_name(-status)}")
        case Outcome(status=int(status)) if status:
            return Verdict(code=status, because=_explain(status, outcome.counts))
        case Outcome(counts=None):
            return Verdict(code=NO_TESTS, because="pytest ended without running a session")
        case Outcome(counts=Counts(executed=0, skipped=skipped)):
            return Verdict(code=NO_TESTS, because=f"no test was executed ({skipped} skipped)")
    return Verdict(code=0, because="passed")


def is_measurement(outcome: Outcome) -> bool:
    """Return whether a test ran and lines were covered; imports alone cover lines too, and would pass for it."""
    return bool(
        outcome.counts and outcome.counts.executed and outcome.report and outcome.report.total.covered
    )


def judge(outcomes: Sequence[Outcome], *, interrupted: int | None = None) -> Verdict:
    """Return the exit code of the whole split.

    A signal that ended the split counts first (128 + N), then the first real failure, then 5, then a report
    that is missing, empty or not uploaded (1), which never hides the tests' own code.
    """
    if interrupted:
        return Verdict(code=128 + interrupted, because=f"interrupted by {_signal_name(interrupted)}")
    halves = [(outcome, judge_half(outcome)) for outcome in outcomes]
    failed = [(outcome, verdict) for outcome, verdict in halves if verdict.code]
    for outcome, verdict in sorted(failed, key=lambda pair: pair[1].code == NO_TESTS):
        return Verdict(code=verdict.code, because=f"{outcome.half.mode}: {verdict.because}")
    for outcome in outcomes:
        if outcome.problem:
            return Verdict(code=1, because=f"{outcome.half.mode}: {outcome.problem}")
    return Verdict(code=0, because="every half ran its tests and has its report")


def _step_suffix(environ: Mapping[str, str], *, required: bool) -> str:
    step = environ.get("BUILDKITE_STEP_ID", "")
    if required and not step:
        raise GuardError(
            "BUILDKITE_STEP_ID is not set inside Buildkite: the reports of two steps would get one name.\n"
            "Pass it into the container (docker plugin: `propagate-environment: true`)."
        )
    if step and not _STEP_ID.fullmatch(step):
        raise GuardError(f"BUILDKITE_STEP_ID {step!r} cannot be part of a file name")
    # The jobs of a parallel step share its id. The job's own id would not do: retries would pile up reports.
    parallel = environ.get("BUILDKITE_PARALLEL_JOB", "")
    if parallel and not parallel.isdecimal():
        raise GuardError(f"BUILDKITE_PARALLEL_JOB {parallel!r} is not a number")
    return "-".join(part for part in (step or "local", parallel) if part)


def _explain(status: int, counts: Counts | None) -> str:
    if status == 1 and counts and not counts.failed:
        return "no test failed, but pytest exited 1 (a threshold such as --cov-fail-under?); its last lines say why"
    return _PYTEST_STATUS.get(status, f"pytest exited {status}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
