"""What Buildkite's schema lets pass and its server, or a person waiting for a job, does not: S1 to S7, S10, S12.

Other modules hold the rest: S8 shards, S9 interpolation, S11 hardware.pod_checks, S13 shell, S14 hardware.card_counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from omni_ci.checks.conditions import ConditionError, check_condition
from omni_ci.checks.findings import Finding, Level, Placed
from omni_ci.checks.retries import repeats_failed_tests
from omni_ci.checks.shards import check_shards
from omni_ci.rendering.jobs import job_count
from omni_ci.shell.runs import pytest_runs
from omni_ci.yaml.model import UPLOADER_ONLY
from omni_ci.yaml.waits import keys_of
from omni_hardware.errors import did_you_mean

# Ours, and those of the older AMD shape.
UPLOADER_KEYS = (*UPLOADER_ONLY, "agent_pool", "grade", "working_dir")
JOBS_PER_UPLOAD = 500
_SUGGESTED_AT_MOST = 20
_LISTED_AT_MOST = 3
_KINDS = ("command", "commands", "plugins", "trigger", "wait", "waiter", "block", "input", "group")
_KEY = re.compile(r"[A-Za-z0-9_\-:${}.,]{1,100}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A rendered pipeline as the checks see it; *known_keys* are step keys that other pipeline files upload."""

    steps: Sequence[Placed]
    known_keys: frozenset[str]


def check_steps(document: Document) -> Iterator[Finding]:
    """Yield what is wrong with the steps, check by check."""
    for check in CHECKS:
        yield from check(document)


def _has_a_kind(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        step = placed.step
        if isinstance(step, dict) and not step.keys() & set(_KINDS) and "type" not in step:
            yield placed.finding(
                "S1", "says nothing to do; give it `commands:`, `trigger:`, `wait:`, `block:` or `input:`"
            )
        elif isinstance(step, dict) and "command" in step and "commands" in step:
            yield placed.finding(
                "S1", "has `command` and `commands`, of which one is not run; give one of them"
            )
        elif placed.runs_commands and not placed.commands.strip() and not step.get("plugins"):
            yield placed.finding("S1", "its commands are empty")


def _server_takes_it(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        step = placed.step
        if not isinstance(step, dict):
            continue
        if placed.runs_commands and ("concurrency" in step) != ("concurrency_group" in step):
            one, other = sorted(("concurrency", "concurrency_group"), key=lambda name: name not in step)
            yield placed.finding("S1", f"has `{one}` without `{other}`, which Buildkite refuses; give both")
        if "\0" in placed.commands:
            yield placed.finding("S1", "its commands hold a NUL character, which no command can")
        if _has_an_empty_side(step.get("matrix")):
            yield placed.finding(
                "S1", "its matrix has no value to make a job of; give it one, or take it out"
            )
        env = step.get("env")
        for name in env if isinstance(env, dict) else ():
            if not _VARIABLE_NAME.fullmatch(str(name)):
                yield placed.finding("S1", f"env: {str(name)!r} is no name of a variable")


def _has_an_empty_side(matrix: Any) -> bool:
    setup = matrix.get("setup") if isinstance(matrix, dict) else matrix
    sides = list(setup.values()) if isinstance(setup, dict) else [setup]
    return not sides or any(isinstance(side, list) and not side for side in sides)


def _keys_are_unique(document: Document) -> Iterator[Finding]:
    first: dict[str, Placed] = {}
    for placed, key in _keyed(document):
        if not _KEY.fullmatch(key):
            yield placed.finding("S2", f"key {key!r} must be 1 to 100 of A-Z a-z 0-9 _ - : . ,")
        if _UUID.fullmatch(key):
            yield placed.finding("S2", f"key {key!r} looks like a UUID, which Buildkite refuses")
        if key in first:
            yield placed.finding("S2", f"key {key!r} is already taken at {first[key].where}")
        first.setdefault(key, placed)


def _dependencies_resolve(document: Document) -> Iterator[Finding]:
    """One finding a missing key: what waits for a whole build usually waits for the same step."""
    keys = {key for _, key in _keyed(document)} | document.known_keys
    missing: dict[str, list[Placed]] = {}
    for placed in document.steps:
        for key in dict.fromkeys(depends_on(placed.step)):
            if key not in keys and "$" not in key:
                missing.setdefault(key, []).append(placed)
    known = sorted(keys)
    for index, (key, (first, *others)) in enumerate(missing.items()):
        # a suggestion compares with every key: the first ones are enough to see what is wrong
        meant = did_you_mean(key, known) if index < _SUGGESTED_AT_MOST else ""
        more = f" (as do {len(others)} more steps: {_listed(others)})" if others else ""
        yield first.finding(
            "S3",
            f"depends_on {key!r}, a key no pipeline file has{meant}{more}; "
            "for a step that lives only in Buildkite pass --known-key",
        )


def _nothing_waits_for_itself(document: Document) -> Iterator[Finding]:
    keys = {placed.path: key for placed, key in _keyed(document)}
    waits: dict[str, set[str]] = {key: set() for key in keys.values()}
    group: set[str] = set()
    for placed in document.steps:
        own = set(depends_on(placed.step))
        group = own if len(placed.path) == 1 else group
        if (key := keys.get(placed.path)) is not None:
            waits[key] |= own | (group if len(placed.path) > 1 else set())
            if (around := keys.get(placed.path[:-1])) is not None:
                waits[around].add(key)  # a group has passed when its steps have
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        where = next(placed for placed, key in _keyed(document) if key == circle[-1])
        way = " → ".join(reversed(circle))
        yield where.finding("S3", f"waits for itself and would never run: {way} (→ is depends_on)")


def _listed(steps: Sequence[Placed]) -> str:
    shown = ", ".join(placed.where for placed in steps[:_LISTED_AT_MOST])
    return f"{shown}, …" if len(steps) > _LISTED_AT_MOST else shown


def _groups_hold_steps(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        if placed.is_group and not placed.step.get("steps"):
            yield placed.finding("S4", "the group is empty, which Buildkite refuses")
        if placed.is_group and len(placed.path) > 1:
            yield placed.finding("S4", "a group inside a group, which Buildkite refuses")


def _uploader_keys_are_gone(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        for key in UPLOADER_KEYS:
            if isinstance(placed.step, dict) and key in placed.step:
                yield placed.finding("S5", f"`{key}` is for this generator and must not reach Buildkite")


def _conditions_parse(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        condition = placed.step.get("if") if isinstance(placed.step, dict) else None
        if condition is None:
            continue
        if not isinstance(condition, str):
            yield placed.finding("S6", f"`if: {str(condition).lower()}` is no text; quote it or take it out")
            continue
        try:
            check_condition(condition)
        except ConditionError as error:
            yield placed.finding("S6", f"`if:` {error}")


def _timeouts_are_set(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        if not placed.runs_commands:
            continue
        minutes = placed.step.get("timeout_in_minutes")
        if minutes is None:
            yield placed.finding(
                "S7", "no timeout_in_minutes: a hang holds its machine for good", level=Level.NOTICE
            )
        elif isinstance(minutes, bool) or not isinstance(minutes, int) or minutes < 1:
            yield placed.finding("S7", f"timeout_in_minutes is {minutes!r}; write whole minutes, 1 or more")


def _retries_spare_failures(document: Document) -> Iterator[Finding]:
    for placed in document.steps:
        retry = placed.step.get("retry") if isinstance(placed.step, dict) else None
        automatic = retry.get("automatic") if isinstance(retry, dict) else None
        if automatic in (None, False, "false"):
            continue
        rules = automatic if isinstance(automatic, list) else [automatic]
        for rule in rules:
            yield from _rule(placed, rule, is_test=_runs_tests(placed))


def _rule(placed: Placed, rule: Any, *, is_test: bool) -> Iterator[Finding]:
    if not isinstance(rule, dict):
        if is_test:
            yield placed.finding(
                "S10", "`automatic: true` repeats failed tests until they pass; list infrastructure statuses"
            )
        return
    limit = rule.get("limit", 2)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= 10:
        yield placed.finding("S10", f"retry limit {limit!r} is not within 1…10")
    if is_test and repeats_failed_tests(rule):
        yield placed.finding(
            "S10", "retries exit status 1, a failed test; a flaky test belongs in quarantine, not in a retry"
        )


def _the_upload_is_small(document: Document) -> Iterator[Finding]:
    steps = [placed.step for placed in document.steps if not placed.is_group]
    count = sum(
        job_count(step.get("parallelism"), step.get("matrix")) if isinstance(step, dict) else 1
        for step in steps
    )
    if count > JOBS_PER_UPLOAD:
        last = list(document.steps)[-1]
        yield Finding(
            code="S12",
            where=last.where,
            message=f"{count} jobs, each shard counted, and Buildkite takes {JOBS_PER_UPLOAD} an upload",
        )


def depends_on(step: Any) -> list[str]:
    """Return the keys that the rendered *step* waits for."""
    return list(keys_of(step.get("depends_on"))) if isinstance(step, dict) else []


def _runs_tests(placed: Placed) -> bool:
    return bool(pytest_runs(placed.script))


def _keyed(document: Document) -> Iterator[tuple[Placed, str]]:
    for placed in document.steps:
        step = placed.step if isinstance(placed.step, dict) else {}
        key = next((step[name] for name in ("key", "id", "identifier") if name in step), None)
        if isinstance(key, str):
            yield placed, key


CHECKS: Sequence[Callable[[Document], Iterator[Finding]]] = (
    _has_a_kind,
    _server_takes_it,
    _keys_are_unique,
    _dependencies_resolve,
    _nothing_waits_for_itself,
    _groups_hold_steps,
    _uploader_keys_are_gone,
    _conditions_parse,
    _timeouts_are_set,
    lambda document: check_shards(document.steps),
    _retries_spare_failures,
    _the_upload_is_small,
)
