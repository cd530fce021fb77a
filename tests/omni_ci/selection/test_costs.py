from __future__ import annotations

import pytest

from omni_ci.rendering.jobs import job_count
from omni_ci.repository.changes import ChangeSet
from omni_ci.selection.costs import Durations, costed, load_durations, priced, shown, tally
from omni_ci.selection.facts import Rule
from omni_ci.selection.judging import MinutesFrom, Mode, Selection, Verdict
from omni_hardware.errors import InputError


def verdict(
    step: str,
    *,
    runs: bool = True,
    cards: int | None = 2,
    minutes: float | None = 30,
    since: MinutesFrom | None = "timeout",
    jobs: int = 1,
    preset: str | None = "l4_2",
) -> Verdict:
    return Verdict(
        file=".buildkite/cuda/test-merge.yml",
        step=step,
        label=step,
        group=None,
        runs=runs,
        because="why",
        rule=Rule.PREFIX,
        preset=preset,
        cards=cards,
        jobs=jobs,
        minutes=minutes,
        minutes_from=since if minutes is not None else None,
    )


def selection(*verdicts: Verdict) -> Selection:
    return Selection(
        changes=ChangeSet.of(["x"]),
        policy="p",
        config_from="head",
        mode=Mode.DIFF,
        labels=(),
        verdicts=verdicts,
    )


def test_gpu_minutes_are_cards_times_minutes_times_jobs() -> None:
    assert verdict("a", cards=4, minutes=30, jobs=3).gpu_minutes == 360
    assert verdict("a", cards=None).gpu_minutes is None
    assert verdict("a", minutes=None).gpu_minutes is None


@pytest.mark.parametrize(
    ("parallelism", "matrix", "jobs"),
    [
        (None, None, 1),
        (4, None, 4),
        (None, ["a", "b"], 2),
        (None, {"setup": {"os": ["a", "b"], "arch": ["c", "d", "e"]}}, 6),
        (None, {"setup": ["a", "b", "c"]}, 3),
        (0, {"setup": None}, 1),
        ("many", "odd", 1),
    ],
)
def test_the_jobs_of_a_step(parallelism: object, matrix: object, jobs: int) -> None:
    assert job_count(parallelism, matrix) == jobs


@pytest.mark.parametrize("name", ["cuda/test-merge.yml#bagel", ".buildkite/cuda/test-merge.yml#bagel"])
def test_measured_minutes_replace_a_timeout(name: str) -> None:
    durations = load_durations(
        f'{{"schema": 1, "tests": {{}}, "steps": {{"{name}": {{"minutes": 12.5}}}}}}', name="d"
    )
    found = costed([verdict("bagel"), verdict("other")], durations=durations, cards=lambda _: 4)
    assert [(one.cards, one.minutes, one.minutes_from) for one in found] == [
        (4, 12.5, "durations"), (4, 30, "timeout"),
    ]  # fmt: skip
    assert costed([verdict("x", cards=None)], durations=None, cards=lambda _: None)[0].cards is None


def test_a_selection_is_priced_by_what_is_known() -> None:
    made = selection(
        verdict("measured", minutes=12.5, since="durations"),
        verdict("limit"),
        verdict("skipped", runs=False, cards=1),
        verdict("cpu", cards=None, preset=None),
        verdict("odd", cards=None),
        verdict("endless", minutes=None),
    )
    count = tally(made)
    assert (count.run.steps, count.skip.steps, count.steps) == (5, 1, 6)
    assert (count.run.gpu_minutes, count.skip.gpu_minutes, count.run.unknown) == (85, 30, 2)
    assert priced(made) == (
        "GPU minutes: 85 run, 30 skip (measured for 1 step; timeouts for 2 steps, so at most)"
        "; 2 steps without cards or minutes to count"
    )
    assert priced(selection(verdict("cpu", cards=None, preset=None))) is None
    assert priced(selection(verdict("endless", minutes=None))) == (
        "GPU minutes: not known; 1 step without cards or minutes to count"
    )


def test_minutes_are_shown_without_a_zero_fraction() -> None:
    assert [shown(value) for value in (0, 30, 12.25, 12345.0)] == ["0", "30", "12.2", "12,345"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "d: not JSON"),
        ("[]", "d: must be a mapping"),
        ('{"schema": 2}', '"schema" is 2'),
        ('{"schema": 1, "step": {}}', "unknown key 'step' (did you mean 'steps'?)"),
        ('{"schema": 1, "steps": []}', '"steps" must map'),
        ('{"schema": 1, "steps": {"a": 3}}', "'a' needs {\"minutes\": a number}, not 3"),
        ('{"schema": 1, "steps": {"a": {"minutes": true}}}', "'a' needs"),
        ('{"schema": 1, "steps": {"a": {"minutes": -1}}}', "'a' needs"),
        ('{"schema": 1, "steps": {"a": {"minutes": NaN}}}', "'a' needs"),
    ],
)
def test_a_wrong_durations_file_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_durations(text, name="d")
    assert message in str(caught.value)


def test_a_file_of_the_plugin_without_steps_measures_nothing() -> None:
    assert load_durations(
        '{"schema": 1, "tests": {"a::b": {"call_s": 1}}, "fixtures": {}}', name="d"
    ) == Durations(file="d")
