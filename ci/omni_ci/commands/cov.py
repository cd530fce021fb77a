"""`omni-ci cov split`: a model's offline and online tests, each with a coverage report of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from omni_ci.coverage.plain import is_off, run_plain
from omni_ci.coverage.run import check_environment, check_paths, clear_stale, forwarded_signals, run_halves
from omni_ci.coverage.split import Outcome, Plan, Verdict, judge, judge_half, plan_split
from omni_hardware.errors import InputError


def split(
    *,
    model_id: str,
    offline: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    online: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    reports: str = ".",
    forwarded: Annotated[tuple[str, ...], Parameter(parse=False)] = (),
) -> int:
    """Run the offline and the online tests of a model, each measured by itself.

    Everything after `--` goes to both pytest runs as it is: `-- -m 'core_model and cpu'`. Both halves run even
    if the first fails. Exit code: 2 for wrong arguments, 125 when a guard refused before any test ran, then the
    first real failure of a half, 5 when a half executed no test, 1 for a report that is empty or not uploaded.
    With OMNI_COVERAGE=off (a pipeline's word, where the policy measures in scheduled builds only) both run together,
    unmeasured.

    Parameters
    ----------
    model_id
        Names the reports: coverage-<model id>-<mode>-<step>.xml.gz; a-z, 0-9 and _.
    offline
        A test path of the offline half; repeatable.
    online
        A test path of the online half; repeatable.
    reports
        Folder for the reports.
    forwarded
        What follows `--`.

    """
    environ = dict(os.environ)
    if not reports:
        raise InputError("--reports '': names no folder")
    folder = Path(reports)
    if is_off(environ):
        # nothing to name or to upload, so that Buildkite's variables do not matter
        return _plainly(plan_split(model_id, offline=offline, online=online, forwarded=forwarded, environ={}))
    plan = plan_split(model_id, offline=offline, online=online, forwarded=forwarded, environ=environ)
    return _measured(plan, folder=folder, environ=environ)


def _measured(plan: Plan, *, folder: Path, environ: Mapping[str, str]) -> int:
    """Run both halves, tell what became of each, and return their exit code."""
    check_paths(plan)
    check_environment(plan, environ=environ)
    clear_stale(plan, folder=folder)
    with forwarded_signals() as children:
        halves = run_halves(plan, children, folder=folder.absolute(), environ=environ, say=_say)
        outcomes = list(halves)
    verdict = judge(outcomes, interrupted=children.received)
    _say("\n".join(_summary(plan, outcomes, verdict, folder=folder)))
    return verdict.code


def _plainly(plan: Plan) -> int:
    """Run the tests of both halves together, unmeasured, and return their exit code."""
    check_paths(plan)
    with forwarded_signals() as children:
        verdict = run_plain(plan, children, environ=os.environ, say=_say)
    _say(f"exit {verdict.code}: {verdict.because}")
    return verdict.code


def _summary(plan: Plan, outcomes: Sequence[Outcome], verdict: Verdict, *, folder: Path) -> Iterable[str]:
    """Yield the lines that tell a person what ran, what it covered and where the reports are."""
    yield f"\n--- coverage of {plan.model_id}"
    yield from _aligned([("mode", "tests run", "skipped", "exit", "lines covered"), *map(_row, outcomes)])
    measured = [outcome for outcome in outcomes if outcome.report]
    packages = sorted({name for outcome in measured if outcome.report for name in outcome.report.packages})
    if packages:
        yield ""
        yield from _aligned(
            [
                ("package", *(str(outcome.half.mode) for outcome in measured)),
                *((name, *(_lines(outcome, name) for outcome in measured)) for name in packages),
            ]
        )
    yield ""
    for outcome in outcomes:
        yield from _remarks(outcome, plan, folder=folder)
    fingerprints = [outcome.report.fingerprint for outcome in measured if outcome.report]
    if len(fingerprints) > 1 and len(set(fingerprints)) == 1:
        yield "note: both halves cover exactly the same lines; is the online half's server measured?"
    yield f"exit {verdict.code}: {verdict.because}"


def _row(outcome: Outcome) -> tuple[str, ...]:
    counts, report = outcome.counts, outcome.report
    return (
        str(outcome.half.mode),
        str(counts.executed) if counts else "-",
        str(counts.skipped) if counts else "-",
        "-" if outcome.status is None else str(judge_half(outcome).code),
        f"{report.total} ({report.total.covered / max(report.total.valid, 1):.0%})" if report else "-",
    )


def _remarks(outcome: Outcome, plan: Plan, *, folder: Path) -> Iterable[str]:
    mode, own = outcome.half.mode, judge_half(outcome)
    if own.because != "passed":
        yield f"{mode}: {own.because}"
    if outcome.problem:
        yield f"{mode}: {outcome.problem}"
    if outcome.kept:
        where = "not inside Buildkite" if not plan.uploads else "it was not uploaded"
        fate = "uploaded" if outcome.kept == "uploaded" else f"kept on disk, {where}"
        yield f"{mode}: {folder / outcome.half.report} ({fate})"


def _lines(outcome: Outcome, package: str) -> str:
    return str(outcome.report.packages.get(package, "-")) if outcome.report else "-"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _say(text: str) -> None:
    # flushed: the children write to the same stream
    print(text, flush=True)
