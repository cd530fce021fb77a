"""A whole job in its pod: guards, caches, items, artifacts, exit code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omni_ci.errors import GuardError
from omni_ci.runner import artifacts, caches
from omni_ci.runner.given import Given, given_by
from omni_ci.runner.guards import Situation, check
from omni_ci.runner.heading import heading
from omni_ci.runner.orphans import adopted
from omni_ci.runner.outcome import Outcome
from omni_ci.runner.platforms import ALLOW_NO_TESTS, Platform, completed, platform_of
from omni_ci.runner.running import GRACE_S, run_items
from omni_ci.runner.stopping import Stop
from omni_ci.runner.table import lines
from omni_ci.shell.runs import pytest_runs
from omni_hardware.errors import strip_controls

_UNSEEN = "this system gives us no orphans: a process left behind that cleared its environment and left its group is not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says. words: the command after the options, () for what the environment holds."""

    platform: str | None = None
    timeout_s: float | None = None
    grace_s: float = GRACE_S
    fail_on_leaks: bool = False
    words: Sequence[str] = ()


def execute(asked: Asked, *, environ: Mapping[str, str], cwd: Path, stop: Stop) -> int:
    """Return the exit code of the job: the items' own, 1 where they were 0 and what belongs to them failed.

    Raises InputError for a platform that does not exist, GuardError where a guard refused: nothing was run.
    """
    platform = platform_of(asked.platform)
    environ = completed(platform, environ)
    given, patterns = _guarded(asked, platform, environ)
    own = caches.caches_of(environ)
    caches.make(own)
    each = caches.for_each_process(own, environ) if platform.has_miopen else {}
    _say(heading(environ, own, platform=asked.platform, count=len(given.commands), source=given.source))
    _say(f"note: {note}" for note in (*given.notes, *without_path(platform, given.commands)))
    try:
        with adopted() as orphans:
            outcome = run_items(
                given.commands,
                cwd=cwd,
                environ={**environ, **own.variables, **each},
                timeout_s=asked.timeout_s,
                grace_s=asked.grace_s,
                stop=stop,
                orphans=orphans,
            )
        if orphans is None:
            outcome = replace(outcome, notes=(*outcome.notes, _UNSEEN))
        return _closed(outcome, environ, patterns, cwd, fail_on_leaks=asked.fail_on_leaks)
    finally:
        if caches.job_name(environ) != caches.LOCAL:
            # a machine that outlives its jobs would fill up
            shutil.rmtree(own.root, ignore_errors=True)


def without_path(platform: Platform, commands: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each pytest of *commands* that names no path, on a platform where that does not do."""
    if not platform.warning:
        return
    for number, command in enumerate(commands, 1):
        if any(not run.paths for run in pytest_runs(command)):
            yield f"item {number} runs pytest without a path: {platform.warning}"


def _guarded(asked: Asked, platform: Platform, environ: Mapping[str, str]) -> tuple[Given, tuple[str, ...]]:
    """Return what to run and the artifact patterns. Raises GuardError with the problems of all guards at once."""
    problems: list[str] = []
    given = patterns = None
    with _kept(problems):
        given = given_by(environ, asked.words)
    with _kept(problems):
        patterns = artifacts.patterns_of(environ)
    with _kept(problems):
        check(Situation(environ=environ, name=asked.platform, platform=platform))
    if given is None or patterns is None or problems:
        raise GuardError("\n".join(problems))
    return given, patterns


@contextmanager
def _kept(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except GuardError as error:
        problems.append(str(error))


def _closed(
    outcome: Outcome, environ: Mapping[str, str], patterns: Sequence[str], cwd: Path, *, fail_on_leaks: bool
) -> int:
    """Return the exit code, after bringing the artifacts home and saying what became of everything."""
    checkout = Path(environ.get(artifacts.CHECKOUT) or cwd)
    brought = artifacts.collect(patterns, checkout=checkout, folders=outcome.folders)
    _say(artifacts.described(brought))
    if environ.get(ALLOW_NO_TESTS) == "1":
        outcome = outcome.allowing_no_tests()
    failures = [*(["an artifact could not be copied"] if brought.problems else [])]
    if outcome.leaked and fail_on_leaks:
        failures.append("processes were left behind, and --fail-on-leaks was given")
    if outcome.status == 0 and failures:
        # the tests' own status is never replaced
        outcome = replace(outcome, status=1, notes=(*outcome.notes, *failures))
    _say(lines(outcome))
    return outcome.status


def _say(shown: Iterable[str]) -> None:
    """Write lines to standard output; a reader that left changes no status."""
    try:
        sys.stdout.writelines(f"{strip_controls(line)}\n" for line in shown)
        sys.stdout.flush()
    except OSError:
        # what is still held must not be tried again at exit; the commands go on without a reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
