"""The reasons a step can have to run: one function each, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from omni_ci.configuration import ConfigKind
from omni_ci.repository.imports import chain
from omni_ci.repository.named_tests import Named, Place, conftests_above, first_at
from omni_ci.repository.pytest_settings import settings_files
from omni_ci.selection.facts import Case, Facts, Reason, Rule
from omni_ci.selection.watches import listing
from omni_ci.shell.invocations import invocations
from omni_ci.yaml.model import Step
from omni_ci.yaml.registry import is_key


def diff_unknown(_case: Case, facts: Facts) -> Reason | None:
    """Not knowing what changed means that anything may have."""
    if facts.changes.known:
        return None
    return Reason(Rule.DEFAULT, f"the changes are unknown: {facts.changes.reason}")


def labelled(case: Case, facts: Facts) -> Reason | None:
    """A label of the pull request beats the filter."""
    names = [case.leaf.ident, case.leaf.label, case.group.group if case.group else None]
    for label in facts.evidence.labels:
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
    change = facts.evidence.definitions.get(case.id)
    return Reason(Rule.SELF, change.because) if change else None


def listed_definition(case: Case, facts: Facts) -> Reason | None:
    """A file listed by hand has no base to compare with, so it concerns every step it can render."""
    if not facts.changes.is_listed:
        return None
    uses_preset = isinstance(case.leaf, Step) and case.leaf.mirror_hardwares is not None
    renders = {
        ConfigKind.PRESETS: uses_preset,
        ConfigKind.TEMPLATE: uses_preset,
        ConfigKind.VOCABULARY: uses_preset,
        ConfigKind.REGISTRY: any(is_key(entry) for entry in (*case.own, *case.gate)),
        ConfigKind.POLICY: True,
    }
    mine = [case.file, *(path for path, kind in facts.evidence.configs.items() if renders[kind])]
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
    if problem := invocations(case.leaf.commands).problem:
        facts.notices.append(f"{case.place}: its shell cannot be read ({problem}); test paths are a guess")
    named = facts.named_tests(case.leaf.commands)
    if unknown := dict.fromkeys(word for one in named for word in one.unknown):
        facts.notices.append(f"{case.place}: what {', '.join(unknown)} holds is not known; it may name tests")
    return next((hit for one in named for place in one.places if (hit := _changed(one, place, facts))), None)


def pytest_settings(case: Case, facts: Facts) -> Reason | None:
    """What pytest reads its settings from tells it something else: other tests, other options."""
    if not (facts.changed_settings and isinstance(case.leaf, Step) and (case.own or case.gate)):
        return None
    starts = dict.fromkeys(one.settings_from for one in facts.named_tests(case.leaf.commands))
    found = (_settings_change(start, facts) for start in starts if start is not None)
    return next(filter(None, found), None)


def imported(case: Case, facts: Facts) -> Reason | None:
    """A file changed that the step's tests lead to by import statements, where the step or policy counts those."""
    if facts.evidence.imports is None or not isinstance(case.leaf, Step) or not (case.own or case.gate):
        return None
    if (case.leaf.imports or facts.policy.imports) != "union":
        return None
    reached = facts.imported_by(case.leaf.commands)
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
    pytest_settings,
    imported,
    coverage_input,
    nothing_declared,
)


def _changed(named: Named, place: Place, facts: Facts) -> Reason | None:
    index = facts.changed_tests(named.settings.test_files) if place.is_searched else facts.code
    # a file that is named runs, be it a document
    itself = place.path if place.path and not place.is_searched and place.path in facts.changed else None
    if hit := itself or named.first(place, index):
        named_itself = "its own test file" if hit.endswith(".py") else "which its pytest is given"
        said = named_itself if hit == place.path else place.said
        return Reason(Rule.TEST, f"{hit} changed, {said}")
    if (module := facts.links.submodule_of(place.path)) and module in facts.changed:
        return Reason(Rule.TEST, f"{module} changed, the submodule that holds {place.path}")
    for conftest in conftests_above(place.path):
        if hit := first_at(conftest, facts.changed):
            return Reason(Rule.TEST, f"{hit} changed, a conftest of {place.path}")
    return None


def _settings_change(folder: str, facts: Facts) -> Reason | None:
    """Return why pytest, which looks for its settings from *folder* upwards, is told something else."""
    changed = [path for path in settings_files(folder) if path in facts.changed_settings]
    if not changed:
        return None
    now, before = facts.evidence.pytest.of(folder), facts.evidence.pytest_before
    if facts.changes.is_listed:
        # one that is not here any more may have been what was read
        read = next((path for path in changed if path == now.file or path not in facts.head), None)
        because = (
            f"{read} is listed, which pytest reads its settings from, and there is no base to compare with"
        )
        return Reason(Rule.TEST, because) if read else None
    then = before.of(folder) if before else now
    if then.file != now.file:
        because = f"pytest reads its settings from {now.file or 'nowhere'}, and at the base from {then.file or 'nowhere'}"
        return Reason(Rule.TEST, because)
    differing = now.differs(then)
    because = f"{now.file} changed, and in it what pytest is told: {listing(differing)}"
    return Reason(Rule.TEST, because) if differing else None
