"""The reasons a step can have to run: one function each, in the order in which they are shown."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from omni_ci.configuration import ConfigKind
from omni_ci.repository.imports import chain
from omni_ci.repository.patterns import literal_prefix, matching
from omni_ci.repository.watching import PathIndex
from omni_ci.selection.facts import Case, Facts, Reason, Rule
from omni_ci.shell.invocations import Invocations, invocations
from omni_ci.yaml.model import Step
from omni_ci.yaml.registry import is_key

_WILD = re.compile(r"[*?\[]")


def diff_unknown(_case: Case, facts: Facts) -> Reason | None:
    """Not knowing what changed means that anything may have."""
    if facts.changes.known:
        return None
    return Reason(Rule.DEFAULT, f"the changes are unknown: {facts.changes.reason}")


def labelled(case: Case, facts: Facts) -> Reason | None:
    """A label of the pull request beats the filter."""
    names = [case.leaf.ident, case.leaf.label, case.group.group if case.group else None]
    for label in facts.labels:
        for pattern in facts.policy.labels.get(label, ()):
            if any(name and fnmatchcase(name, pattern) for name in names):
                return Reason(Rule.LABEL, f"label {label!r} asks for it")
    return None


def run_all(case: Case, facts: Facts) -> Reason | None:
    """A file that concerns every step, by policy or by the registry."""
    if facts.run_all:
        return Reason(Rule.RUN_ALL, f"{facts.run_all} changed, which concerns every step")
    if facts.registry_run_all and (case.own or case.gate):
        because = f"{facts.registry_run_all} changed, which the registry counts for every step"
        return Reason(Rule.RUN_ALL, because)
    return None


def definition(case: Case, facts: Facts) -> Reason | None:
    """The step itself is what changed."""
    change = facts.definitions.get(case.id)
    return Reason(Rule.SELF, change.because) if change else None


def listed_definition(case: Case, facts: Facts) -> Reason | None:
    """A file listed by hand has no base to compare with, so it concerns every step it can render."""
    if not facts.changes.is_listed:
        return None
    uses_preset = isinstance(case.leaf, Step) and case.leaf.mirror_hardwares is not None
    renders = {
        ConfigKind.PRESETS: uses_preset,
        ConfigKind.TEMPLATE: uses_preset,
        ConfigKind.REGISTRY: any(is_key(entry) for entry in (*case.own, *case.gate)),
        ConfigKind.POLICY: True,
    }
    mine = [case.file, *(path for path, kind in facts.configs.items() if renders[kind])]
    listed = next((path for path in mine if path in facts.changed), None)
    return (
        Reason(Rule.SELF, f"{listed} is listed and there is no base to compare it with") if listed else None
    )


def watched(case: Case, facts: Facts) -> Reason | None:
    """A declared path changed. A group's list gates what its steps declare; a step without one goes with it."""
    opened = facts.watched_change(case.gate) if case.gate else None
    if case.gate and opened is None:
        return None
    if case.own:
        return facts.watched_change(case.own)
    return Reason(opened.rule, f"{opened.because} (its group's list)") if opened else None


def own_tests(case: Case, facts: Facts) -> Reason | None:
    """A test file the step runs changed, or a conftest above one."""
    if not isinstance(case.leaf, Step) or not (case.own or case.gate):
        return None
    runs = invocations(case.leaf.commands)
    if runs.problem:
        facts.notices.append(
            f"{case.place}: its shell cannot be read ({runs.problem}); test paths are a guess"
        )
    paths = list(_test_paths(runs, facts))
    if unknown := [word for word in runs.words if word.startswith("$")]:
        facts.notices.append(f"{case.place}: what {', '.join(unknown)} holds is not known; it may name tests")
    elif runs.runs_pytest and not paths:
        facts.notices.append(f"{case.place}: pytest gets no path, so that its own test files are not known")
    return next((reason for path in paths if (reason := _changed_test(path, facts))), None)


def imported(case: Case, facts: Facts) -> Reason | None:
    """A file changed that the step's tests lead to by import statements, where the step or policy counts those."""
    if facts.imports is None or not isinstance(case.leaf, Step) or not (case.own or case.gate):
        return None
    if (case.leaf.imports or facts.policy.imports) != "union":
        return None
    paths = list(_test_paths(invocations(case.leaf.commands), facts))
    files = {file for path in paths for file in _files_at(path, facts.head) if file.endswith(".py")}
    files |= {conftest for path in paths for conftest in _conftests(path) if conftest in facts.head}
    reached = facts.imported_by(tuple(sorted(files)))
    hit = next((path for path in facts.names if path in reached and reached[path] is not None), None)
    return (
        Reason(Rule.IMPORT, f"{hit} changed, which its tests import: {chain(reached, hit)}") if hit else None
    )


def coverage_input(case: Case, facts: Facts) -> Reason | None:
    """What alters the measuring concerns the steps that measure."""
    if (
        facts.coverage_input
        and isinstance(case.leaf, Step)
        and invocations(case.leaf.commands).measures_coverage
    ):
        return Reason(Rule.COVERAGE, f"{facts.coverage_input} is a coverage input")
    return None


def nothing_declared(case: Case, _facts: Facts) -> Reason | None:
    """A step that says nothing about what concerns it runs for everything."""
    if case.own or case.gate:
        return None
    return Reason(Rule.DEFAULT, "it declares no source_file_dependencies, so it always runs")


RULES: tuple[Callable[[Case, Facts], Reason | None], ...] = (
    diff_unknown,
    labelled,
    run_all,
    definition,
    listed_definition,
    watched,
    own_tests,
    imported,
    coverage_input,
    nothing_declared,
)


def _test_paths(runs: Invocations, facts: Facts) -> Iterator[str]:
    """Yield the words that are paths: written like one, or a folder at the head."""
    for word in runs.words:
        if word.startswith((".", "/", "$")):
            continue
        if "/" in word or word.endswith(".py") or _WILD.search(word) or facts.head.holds(word):
            yield word


def _changed_test(path: str, facts: Facts) -> Reason | None:
    if hit := _first_at(path, facts.code):
        place = "its own test file" if hit == path else f"under its test path {path}"
        return Reason(Rule.TEST, f"{hit} changed, {place}")
    if (module := facts.links.submodule_of(path)) and module in facts.changed:
        return Reason(Rule.TEST, f"{module} changed, the submodule that holds {path}")
    for conftest in _conftests(path):
        if hit := _first_at(conftest, facts.changed):
            return Reason(Rule.TEST, f"{hit} changed, a conftest of {path}")
    return None


def _first_at(path: str, index: PathIndex) -> str | None:
    """Return the first path of *index* that *path*, which may hold wildcards, names: a file, or one in a folder."""
    if not _WILD.search(path):
        return index.first_under(path)
    return next(iter(_files_at(path, index)), None)


def _files_at(path: str, index: PathIndex) -> list[str]:
    """Return all paths of *index* that *path*, which may hold wildcards, names."""
    if not _WILD.search(path):
        bare = path.rstrip("/")
        return [*([bare] if bare in index else []), *index.under(f"{bare}/")]
    pattern = re.sub(r"\[[^\]]*\]", "?", path)
    return matching(index.under(literal_prefix(pattern)), [pattern, f"{pattern}/**"])


def _conftests(path: str) -> Iterator[str]:
    folder = path
    while folder:
        folder = posixpath.dirname(folder)
        yield posixpath.join(folder, "conftest.py")
