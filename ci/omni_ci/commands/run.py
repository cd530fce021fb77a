"""`omni-ci run`: the selected steps that this machine can run, in order, with logs and a JUnit file."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from omni_ci.commands.arguments import Whole, one_named
from omni_ci.commands.selecting import Selecting
from omni_ci.errors import GuardError
from omni_ci.local import junit
from omni_ci.local.jobs import LocalJob, jobs_of
from omni_ci.local.machine import Machine
from omni_ci.local.results import code_of
from omni_ci.local.schedule import Folders, Schedule
from omni_ci.local.showing import Screen, closing_lines, plan_lines
from omni_ci.planning import Plan
from omni_ci.repository.git import GitError, Repository
from omni_ci.runner.stopping import heard_signals
from omni_ci.showing.report import counted, say
from omni_hardware.errors import InputError
from omni_hardware.inventory import load_inventory
from omni_hardware.probes import probe
from omni_hardware.project import load_project

JUNIT = "junit.xml"


def run(
    *files: str,
    jobs: Whole = 1,
    out: str = ".omni-run",
    inventory: str | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    selecting: Selecting | None = None,
) -> int:
    """Run the selected steps that this machine can run.

    The commands are shown first, and why other steps cannot run here. Exit code: 2 for wrong arguments, 125 when no
    selected step can run here, then the first failure of a step that is not 5, else 5.

    Parameters
    ----------
    files
        Pipeline files; without any, every .buildkite/*/test-*.yml of the repository.
    jobs
        How many steps run side by side, each with devices of its own.
    out
        The folder for a log of each step and junit.xml.
    inventory
        A file that says which devices are here, instead of asking the machine.
    dry_run
        Show the commands and run nothing.
    selecting
        What to select by.

    """
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: must be 1 or more")
    if not out:
        raise InputError("--out '': names no folder")
    one_named("--inventory", inventory)
    plan = (selecting or Selecting()).plan(files)
    return _shown(plan, Path(out).absolute(), inventory=inventory, side_by_side=jobs, dry_run=dry_run)


def _shown(plan: Plan, folder: Path, *, inventory: str | None, side_by_side: int, dry_run: bool) -> int:
    """Show what is selected, and run it unless that was all that was asked for."""
    environ = _environ(plan.root)
    wanted = _wanted(plan, environ)
    if not wanted:
        say("nothing selected, so there is nothing to run")
        return 0
    machine = _machine(plan.root, environ, inventory)
    fitted = tuple(replace(job, unfit=job.unfit or machine.why_not(job.need)) for job in wanted)
    screen = Screen(sys.stdout, folder)
    for line in plan_lines(fitted):
        screen.line(line)
    screen.require()
    if dry_run:
        return 0
    return _ran(fitted, machine, plan, screen, folder=folder, side_by_side=side_by_side)


def _wanted(plan: Plan, environ: Mapping[str, str]) -> tuple[LocalJob, ...]:
    """Return the jobs of the selected steps; what a reader should know about them is said on stderr."""
    found = jobs_of(plan, environ)
    for notice in (*plan.notices, *found.notices):
        say(f"note: {notice}")
    say(counted(plan.selection))
    return found.jobs


def _ran(
    jobs: tuple[LocalJob, ...],
    machine: Machine,
    plan: Plan,
    screen: Screen,
    *,
    folder: Path,
    side_by_side: int,
) -> int:
    if all(job.unfit for job in jobs):
        raise GuardError("no selected step can run on this machine, so nothing was run")
    _clear(folder)
    with heard_signals() as stop, tempfile.TemporaryDirectory(prefix="omni-run-") as caches:
        schedule = Schedule(
            jobs=jobs,
            machine=machine,
            folders=Folders(root=plan.root, logs=folder, caches=Path(caches)),
            stop=stop,
            watch=screen.watch,
        )
        results = schedule.run(side_by_side=side_by_side)
        screen.close()
    code = code_of(results)
    if stop.number is not None:
        code = code or 128 + stop.number
    (folder / JUNIT).write_text(junit.document(results, folder), encoding="utf-8")
    for line in closing_lines(results, code, folder):
        screen.line(line)
    return _told(screen, code, folder)


def _told(screen: Screen, code: int, folder: Path) -> int:
    """Return the exit code; where the results could not be shown, that is 1 at least. Raises BrokenPipeError."""
    if isinstance(screen.problem, BrokenPipeError):
        raise screen.problem
    if screen.problem is None:
        return code
    say(f"warning: standard output cannot be written: {screen.problem.strerror}; the results are in {folder}")
    return code or 1


def _environ(root: Path) -> dict[str, str]:
    """Return this process's environment, with what Buildkite would say about the checkout."""
    more: dict[str, str] = {}
    if "BUILDKITE_COMMIT" not in os.environ:
        with contextlib.suppress(GitError):
            more["BUILDKITE_COMMIT"] = Repository(root).commit("HEAD") or ""
    more["BUILDKITE_BUILD_CHECKOUT_PATH"] = str(root)
    # last: the tools that were installed beside us, for a shell without an active environment
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(Path(sys.executable).parent))))
    return {**os.environ, **more, "PATH": path}


def _machine(root: Path, environ: Mapping[str, str], inventory: str | None) -> Machine:
    vocabulary = load_project(root)
    found = (
        load_inventory(inventory, environ=environ, vocabulary=vocabulary)
        if inventory is not None
        else probe(environ, vocabulary=vocabulary)
    )
    return Machine(inventory=found, environ=environ, vocabulary=vocabulary)


def _clear(folder: Path) -> None:
    """Make the folder, without the logs of an earlier run, and unseen by git. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = folder / ".gitignore"
        if any(folder.iterdir()) and not ours.is_file():
            raise InputError(f"--out {folder}: is a folder with other files in it; name a new one")
        ours.write_text("*\n", encoding="utf-8")
        for path in (*folder.glob("*.log"), folder / JUNIT):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from None
