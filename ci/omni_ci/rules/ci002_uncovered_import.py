from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import groupby

from omni_ci.repository.imports import chain
from omni_ci.repository.patterns import matches
from omni_ci.rules.context import Context
from omni_ci.rules.jobs import Job
from omni_ci.rules.placements import selected_files
from omni_ci.rules.rule import Found, Rule


class ImportsAreWatched(Rule):
    """What a step's tests import is watched by the step.

    A change of an imported file that no entry covers breaks the test in a build that did not run it. Add the file or
    its folder to `source_file_dependencies`. The message shows how the test gets there; what an uncovered file
    imports in turn is asked once it is covered. Imports inside functions count in test files only. `imports:
    union` of the policy or of the step makes all imports count by themselves.
    """

    code = "CI002"

    def check(self, context: Context) -> Iterator[Found]:
        for job in context.jobs:
            imports = job.step.imports or context.configuration(job).policy.imports
            if job.watch.is_declared and imports != "union":
                yield from _uncovered(job, context)


def _uncovered(job: Job, context: Context) -> Iterator[Found]:
    tests = selected_files(job, context)
    own = tests | context.conftests(tests)
    covered = _coverage_of(job, own, context)
    closure = context.imports.closure(sorted(own), through=covered, lazy=tests.__contains__)
    missing = sorted(path for path in closure if not covered(path))
    reaches = cache(partial(job.watch.reaches, index=context.index))
    for place, paths in groupby(missing, key=lambda path: _place(path, reaches)):
        yield _found(job, place, list(paths), closure)


def _coverage_of(job: Job, own: frozenset[str], context: Context) -> Callable[[str], bool]:
    """Return what says whether a change of a path selects the step, through its list or whatever it declares."""
    configuration = context.configuration(job)
    folders = tuple(f"{path.rstrip('/')}/**" for path in configuration.registry.run_all)
    always = (*configuration.policy.run_all, *configuration.registry.run_all, *folders)
    return lambda path: path in own or job.watch.covers(path) or matches(path, always)


def _place(path: str, reaches: Callable[[str], bool]) -> str:
    """Return the outermost folder of *path* of which the step watches nothing, else *path* itself."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        if not reaches(folder):
            return f"{folder}/"
    return path


def _found(job: Job, place: str, paths: list[str], closure: Mapping[str, str | None]) -> Found:
    nearest = min(paths, key=lambda path: chain(closure, path).count("→"))
    of_it = (
        f", {len(paths)} files of which"
        if len(paths) > 1
        else ", of which"
        if place != paths[0]
        else ", which"
    )
    return job.found(place, f"does not watch {place}{of_it} its tests import: {chain(closure, nearest)}")
