from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_ci.coverage.report import Lines, Report
from omni_ci.coverage.split import (
    Counts,
    Half,
    Mode,
    Outcome,
    Verdict,
    is_measurement,
    judge,
    judge_half,
    plan_split,
)
from omni_ci.errors import GuardError
from omni_hardware.errors import InputError

RAN = Counts(executed=3, skipped=1)
FAILED = Counts(executed=3, skipped=1, failed=1)


def plan(environ=None, **changes):
    arguments = {"model_id": "z_image", "offline": ["tests/a.py"], "online": ["tests/b.py"], "forwarded": ()}
    arguments |= changes
    return plan_split(arguments.pop("model_id"), environ=environ or {}, **arguments)


def outcome(status=0, *, counts=RAN, mode=Mode.OFFLINE, problem=None):
    half = Half(mode=mode, paths=("tests",), xml="coverage-z_image-offline-local.xml")
    return Outcome(half=half, status=status, counts=counts, problem=problem)


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, ["coverage-z_image-offline-local.xml", "coverage-z_image-online-local.xml"]),
        (
            {"BUILDKITE": "true", "BUILDKITE_STEP_ID": "0190-ab"},
            ["coverage-z_image-offline-0190-ab.xml", "coverage-z_image-online-0190-ab.xml"],
        ),
        (
            {"BUILDKITE": "true", "BUILDKITE_STEP_ID": "0190", "BUILDKITE_PARALLEL_JOB": "1"},
            ["coverage-z_image-offline-0190-1.xml", "coverage-z_image-online-0190-1.xml"],
        ),
    ],
)
def test_reports_are_named_after_model_mode_step_and_parallel_job(environ, names):
    made = plan(environ)
    assert [half.xml for half in made.halves] == names
    assert [half.report for half in made.halves] == [f"{name}.gz" for name in names]
    assert made.uploads is (environ.get("BUILDKITE") == "true")


def test_a_single_mode_runs_alone_but_stale_reports_of_both_are_named():
    made = plan(online=[])
    assert [half.mode for half in made.halves] == [Mode.OFFLINE]
    assert set(made.stale) == {
        f"coverage-z_image-{mode}-local.xml{ending}"
        for mode in ("offline", "online")
        for ending in ("", ".gz")
    }


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model_id": "Z-Image"}, "did you mean 'z_image'?"),
        ({"model_id": ""}, "only a-z, 0-9 and _"),
        ({"model_id": "../x"}, "did you mean 'x'?"),
        ({"online": [""]}, "--online '': names no file or folder"),
        ({"offline": ["tests/a.py", "::test_x"]}, "--offline '::test_x': names no file or folder"),
        ({"offline": [], "online": []}, "at least one --offline PATH or --online PATH"),
    ],
)
def test_arguments_that_cannot_work_are_refused(changes, text):
    with pytest.raises(InputError) as caught:
        plan(**changes)
    assert text in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"BUILDKITE": "true"}, "BUILDKITE_STEP_ID is not set"),
        ({"BUILDKITE_STEP_ID": "a/b"}, "cannot be part of a file name"),
        ({"BUILDKITE_PARALLEL_JOB": "one"}, "is not a number"),
    ],
)
def test_an_environment_that_would_lose_a_report_is_a_guard(environ, text):
    with pytest.raises(GuardError, match=text) as caught:
        plan(environ)
    assert caught.value.exit_code == 125


@pytest.mark.parametrize(
    ("half", "code", "because"),
    [
        (outcome(0), 0, "passed"),
        (outcome(1, counts=FAILED), 1, "tests failed"),
        (outcome(1, counts=None), 1, "tests failed"),
        (outcome(4, counts=None), 4, "pytest refused its arguments"),
        (outcome(5, counts=Counts(executed=0, skipped=0)), 5, "no test was selected"),
        (outcome(0, counts=Counts(executed=0, skipped=2)), 5, "no test was executed (2 skipped)"),
        (outcome(0, counts=None), 5, "pytest ended without running a session"),
        (outcome(-signal.SIGKILL, counts=None), 137, "ended by SIGKILL"),
        (outcome(-signal.SIGSEGV, counts=None), 139, "ended by SIGSEGV"),
        (outcome(42), 42, "pytest exited 42"),
        (outcome(-63, counts=None), 191, "ended by signal 63"),
    ],
)
def test_a_half_keeps_its_own_exit_code(half, code, because):
    verdict = judge_half(half)
    assert (verdict.code, verdict.because) == (code, because)


def test_an_exit_code_of_one_without_a_failed_test_is_told_apart():
    verdict = judge_half(outcome(1))
    assert verdict.code == 1
    assert verdict.because.startswith("no test failed, but pytest exited 1")


def test_a_verdict_without_a_reason_cannot_be_made():
    with pytest.raises(ValueError, match="exit code 0 needs a reason"):
        Verdict(code=0, because=" ")


@pytest.mark.parametrize(
    ("executed", "covered", "counts"), [(1, 1, True), (0, 1, False), (1, 0, False), (None, 1, False)]
)
def test_a_report_measures_something_when_a_test_ran_and_covered_lines(executed, covered, counts):
    ran = None if executed is None else Counts(executed=executed, skipped=3)
    report = Report(total=Lines(covered=covered, valid=9), packages={}, fingerprint="")
    assert is_measurement(replace(outcome(0, counts=ran), report=report)) is counts


NOTHING = Counts(executed=0, skipped=0)


@pytest.mark.parametrize(
    ("offline", "online", "code"),
    [
        ((0, RAN, None), (0, RAN, None), 0),
        ((5, NOTHING, None), (1, RAN, None), 1),
        ((-9, None, None), (1, RAN, None), 137),
        ((1, RAN, None), (-9, None, None), 1),
        ((0, NOTHING, None), (0, RAN, None), 5),
        ((0, RAN, None), (5, NOTHING, "upload failed"), 5),
        ((0, RAN, "upload failed"), (0, RAN, None), 1),
        ((0, RAN, "upload failed"), (2, None, None), 2),
    ],
)
def test_the_first_real_failure_counts_then_five_then_the_upload(offline, online, code):
    halves = [
        outcome(status, counts=counts, mode=mode, problem=problem)
        for mode, (status, counts, problem) in zip(Mode, (offline, online), strict=True)
    ]
    assert judge(halves).code == code


def test_a_signal_to_the_split_is_told_from_a_failed_test():
    verdict = judge([outcome(1), outcome(None, counts=None)], interrupted=signal.SIGTERM)
    assert (verdict.code, verdict.because) == (143, "interrupted by SIGTERM")


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 5, -9, -15]),
            st.sampled_from([None, RAN, NOTHING]),
            st.sampled_from([None, "not uploaded"]),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_green_means_that_every_half_ran_a_test_and_has_its_report(rows):
    halves = [outcome(status, counts=counts, problem=problem) for status, counts, problem in rows]
    verdict = judge(halves)
    fine = all(status == 0 and counts == RAN and problem is None for status, counts, problem in rows)
    assert (verdict.code == 0) is fine
    assert verdict.because
